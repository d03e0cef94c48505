-- KEYS: the counter, the result of this operation. ARGV: delta, lifetime of the counter and of the result in
-- milliseconds. Gives the new value, as text because Lua's numbers are not exact; asked again, the same.
local known = redis.call('GET', KEYS[2])
if known then
  return known
end
local is_new = redis.call('EXISTS', KEYS[1]) == 0
local added = redis.pcall('INCRBY', KEYS[1], ARGV[1])
if type(added) == 'table' and added.err then
  if not string.find(added.err, 'overflow') then
    return added
  end
  local limit = string.sub(ARGV[1], 1, 1) == '-' and '-9223372036854775808' or '9223372036854775807'
  redis.call('SET', KEYS[1], limit, 'KEEPTTL')
end
if is_new then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local value = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[2], value, 'PX', ARGV[3])
return value
