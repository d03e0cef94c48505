-- KEYS: the entries, what is known of the log. ARGV: the first id, most entries, most bytes. Gives nothing if there is
-- no log, else its floor, the last trimmed position, the newest position, the oldest id, then ids and entries in turn.
local about = redis.call('HMGET', KEYS[2], 'floor', 'trimmed', 'newest')
if not about[1] then
  return false
end
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local answer = {about[1], about[2], about[3] or '', oldest and oldest[1] or ''}
local from, left, bytes = ARGV[1], tonumber(ARGV[2]), 0
while left > 0 do
  local wanted = math.min(left, 16)
  local found = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', wanted)
  for _, entry in ipairs(found) do
    bytes = bytes + #entry[2][2]
    if bytes > tonumber(ARGV[3]) and #answer > 4 then
      return answer
    end
    answer[#answer + 1] = entry[1]
    answer[#answer + 1] = entry[2][2]
    from = string.format('%.0f-0', tonumber(string.match(entry[1], '^%d+')) + 1)
  end
  left = left - #found
  if #found < wanted then
    break
  end
end
return answer
