-- Releases a lock without waiters, as leave.lua does in nearly all cases. It has fewer keys and arguments, each of
-- which costs the server time.
--
-- KEYS   lock  queue
-- ARGV   token
-- Reply  `RELEASED <token>`   as for leave.lua
--        nil                  nothing was changed, and the client must call leave.lua

-- A key of another type replies with an error, which is neither our token nor an empty queue.
if redis.pcall('GET', KEYS[1]) == ARGV[1] and not redis.pcall('LINDEX', KEYS[2], 0) then
  redis.call('DEL', KEYS[1])
  return 'RELEASED ' .. ARGV[1]
end
return false
