-- KEYS: the hash of the kind. ARGV: id, what is expected (* anything, - nothing). Gives how many were removed.
local kept = redis.call('HGET', KEYS[1], ARGV[1])
local at = kept and string.match(kept, '^(%d+):') or '-'
if ARGV[2] ~= '*' and ARGV[2] ~= at then
  return 0
end
return redis.call('HDEL', KEYS[1], ARGV[1])
