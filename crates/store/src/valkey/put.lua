-- KEYS: the hash of the kind, the last version. ARGV: id, what is expected (* anything, - nothing), value.
-- Gives the new version, or nothing if what was expected is not there.
local kept = redis.call('HGET', KEYS[1], ARGV[1])
local at = kept and string.match(kept, '^(%d+):') or '-'
if ARGV[2] ~= '*' and ARGV[2] ~= at then
  return false
end
-- A count alone would begin again, and bring back versions, when a server without a disk is started anew.
local now = redis.call('TIME')
local version = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, now[1] * 1000000 + now[2])
local text = string.format('%.0f', version)
redis.call('SET', KEYS[2], text)
redis.call('HSET', KEYS[1], ARGV[1], text .. ':' .. ARGV[3])
return text
