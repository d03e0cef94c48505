-- KEYS: the lease. ARGV: token, milliseconds. Gives 1 if it is still ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
