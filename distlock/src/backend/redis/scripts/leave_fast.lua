-- First part of leave.lua: nearly always there is nobody to serve, and everything below would only cost time.
-- Hands `held` and `waiter` on to leave.lua.

-- A key of another type answers with an error, which is not our token either.
local held = redis.pcall('GET', KEYS[1])
local waiter
if held == ARGV[1] and ARGV[2] == '0' then
  -- The first write of the script, and one that needs no memory: it tells whether the server writes at all,
  -- before any waiter is told anything (see serve.lua).
  waiter = redis.pcall('LPOP', KEYS[2])
  if type(waiter) == 'table' then
    if not string.find(waiter.err, 'WRONGTYPE', 1, true) then
      return waiter
    end
    -- Another program's value stands where the queue would be: nobody is queued.
    waiter = false
  end
  if not waiter then
    redis.call('DEL', KEYS[1])
    -- One string is answered faster than a list.
    return 'RELEASED ' .. ARGV[1]
  end
end

