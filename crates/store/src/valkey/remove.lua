-- KEYS: the hash of the kind, the value with a lifetime, the ids of such values. ARGV: id, what is expected
-- (* anything, - nothing). Gives how many were removed.
local kept = redis.call('GET', KEYS[2]) or redis.call('HGET', KEYS[1], ARGV[1])
local at = kept and string.match(kept, '^(%d+):') or '-'
if ARGV[2] ~= '*' and ARGV[2] ~= at then
  return 0
end
redis.call('ZREM', KEYS[3], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1]) + redis.call('DEL', KEYS[2])
