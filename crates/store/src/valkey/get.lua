-- KEYS: the hash of the kind, the value with a lifetime. ARGV: id. Gives the value with its version.
return redis.call('GET', KEYS[2]) or redis.call('HGET', KEYS[1], ARGV[1])
