-- KEYS: the value with a lifetime, the ids of such values by their end. ARGV: id, milliseconds. Gives 1 if it is there.
if redis.call('PEXPIRE', KEYS[1], ARGV[2]) == 0 then
  return 0
end
local now = redis.call('TIME')
redis.call('ZADD', KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2], ARGV[1])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return 1
