-- First part of leave.lua. Nearly always there is no waiter to serve, and everything below would only cost
-- time. Sets `held` and `waiter` for leave.lua.

-- A key of another type replies with an error, which is not our token either.
local held = redis.pcall('GET', KEYS[1])
local waiter
if held == ARGV[1] and (ARGV[2] == '0' or not ARGV[3]) then
  -- The first write of the script, and one that needs no memory: it shows whether the server accepts writes
  -- at all, before any waiter is told anything (see serve.lua).
  waiter = redis.pcall('LPOP', KEYS[2])
  if type(waiter) == 'table' then
    if not string.find(waiter.err, 'WRONGTYPE', 1, true) then
      return waiter
    end
    -- The queue's key holds a value of another program: there is no waiter.
    waiter = false
  end
  if not waiter then
    redis.call('DEL', KEYS[1])
    -- A string is a faster reply than a list.
    return 'RELEASED ' .. ARGV[1]
  end
end

