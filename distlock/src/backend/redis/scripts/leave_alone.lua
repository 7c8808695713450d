-- Releases a lock that nobody waits for: what leave.lua does in nearly all cases, with fewer keys and arguments,
-- each of which costs the server time.
--
-- KEYS   lock  queue
-- ARGV   token
-- Reply  `RELEASED <token>`   as of leave.lua
--        nil                  nothing was done: ask leave.lua

-- A key of another type replies with an error, which is neither our token nor an empty queue.
if redis.pcall('GET', KEYS[1]) == ARGV[1] and not redis.pcall('LINDEX', KEYS[2], 0) then
  redis.call('DEL', KEYS[1])
  return 'RELEASED ' .. ARGV[1]
end
return false
