-- KEYS: what is known of the log, the entries. Gives 1 if there was a log. Its last position stays until it expires.
redis.call('DEL', KEYS[2])
return redis.call('DEL', KEYS[1])
