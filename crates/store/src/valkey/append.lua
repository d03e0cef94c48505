-- KEYS: the entries, what is known of the log, its last position, the result of this operation.
-- ARGV: most entries, most bytes, lifetime of the log, of its last position and of the result in milliseconds,
-- then the entries. Gives the first position; asked again, the same.
local known = redis.call('GET', KEYS[4])
if known then
  return known
end
local function text(number)
  return string.format('%.0f', number)
end
-- A count alone would begin again when the last position was forgotten.
local now = redis.call('TIME')
local first = math.max(tonumber(redis.call('GET', KEYS[3]) or '0') + 1, now[1] * 1000000 + now[2])
local about = redis.call('HMGET', KEYS[2], 'entries', 'bytes')
if not about[1] then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[2], 'floor', text(first - 1), 'trimmed', '0')
end
local entries, bytes = tonumber(about[1] or '0'), tonumber(about[2] or '0')
local position = first
for at = 6, #ARGV do
  redis.call('XADD', KEYS[1], text(position) .. '-0', 'v', ARGV[at])
  entries, bytes, position = entries + 1, bytes + #ARGV[at], position + 1
end
while entries > tonumber(ARGV[1]) or bytes > tonumber(ARGV[2]) do
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if not oldest then
    break
  end
  redis.call('XDEL', KEYS[1], oldest[1])
  redis.call('HSET', KEYS[2], 'trimmed', string.match(oldest[1], '^%d+'))
  entries, bytes = entries - 1, bytes - #oldest[2][2]
end
local last = text(position - 1)
redis.call('HSET', KEYS[2], 'entries', text(entries), 'bytes', text(bytes), 'newest', last)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[3], last, 'PX', ARGV[4])
redis.call('SET', KEYS[4], text(first), 'PX', ARGV[5])
return text(first)
