-- KEYS: the hash of the kind, the last version, the value with a lifetime, the ids of such values by their end.
-- ARGV: id, what is expected (* anything, - nothing), value, lifetime in milliseconds or nothing.
-- Gives the new version, or nothing if what was expected is not there.
local kept = redis.call('GET', KEYS[3]) or redis.call('HGET', KEYS[1], ARGV[1])
local at = kept and string.match(kept, '^(%d+):') or '-'
if ARGV[2] ~= '*' and ARGV[2] ~= at then
  return false
end
-- A count alone would begin again, and bring back versions, when a server without a disk is started anew.
local now = redis.call('TIME')
local version = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, now[1] * 1000000 + now[2])
local text = string.format('%.0f', version)
redis.call('SET', KEYS[2], text)
if ARGV[4] == '' then
  redis.call('HSET', KEYS[1], ARGV[1], text .. ':' .. ARGV[3])
  redis.call('DEL', KEYS[3])
  redis.call('ZREM', KEYS[4], ARGV[1])
else
  local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
  redis.call('SET', KEYS[3], text .. ':' .. ARGV[3], 'PX', ARGV[4])
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now_ms)
  redis.call('ZADD', KEYS[4], now_ms + ARGV[4], ARGV[1])
  -- The ids go with the last of the values.
  if redis.call('PTTL', KEYS[4]) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[4], ARGV[4])
  end
end
return text
