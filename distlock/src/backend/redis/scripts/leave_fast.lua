-- First part of leave.lua, for a lock without waiters, where the other parts would only cost time. Sets `held` and
-- `waiter` for leave.lua.

-- For a key of another type, GET returns an error, which is not our token either.
local held = redis.pcall('GET', KEYS[1])
local waiter
if held == ARGV[1] and (ARGV[2] == '0' or not ARGV[3]) then
  -- The first write of the script. It needs no memory, and shows whether the server accepts writes, before a waiter is
  -- notified (see serve.lua).
  waiter = redis.pcall('LPOP', KEYS[2])
  if type(waiter) == 'table' then
    if not string.find(waiter.err, 'WRONGTYPE', 1, true) then
      return waiter
    end
    -- The queue's key has a value of another program, so there is no waiter.
    waiter = false
  end
  if not waiter then
    redis.call('DEL', KEYS[1])
    -- A string is a faster reply than a list.
    return 'RELEASED ' .. ARGV[1]
  end
end

