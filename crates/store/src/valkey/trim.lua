-- KEYS: the entries, what is known of the log. ARGV: the last id to be removed. Gives how many were removed.
local about = redis.call('HMGET', KEYS[2], 'entries', 'bytes')
if not about[1] then
  return 0
end
local entries, bytes, removed = tonumber(about[1]), tonumber(about[2]), 0
repeat
  local found = redis.call('XRANGE', KEYS[1], '-', ARGV[1], 'COUNT', 64)
  for _, entry in ipairs(found) do
    redis.call('XDEL', KEYS[1], entry[1])
    redis.call('HSET', KEYS[2], 'trimmed', string.match(entry[1], '^%d+'))
    entries, bytes, removed = entries - 1, bytes - #entry[2][2], removed + 1
  end
until #found < 64
redis.call('HSET', KEYS[2], 'entries', string.format('%.0f', entries), 'bytes', string.format('%.0f', bytes))
if entries == 0 then
  redis.call('HDEL', KEYS[2], 'newest')
end
return removed
