-- Second part of the script, behind force_args.lua and members.lua.

local token = redis.pcall('GET', lock)
if type(token) == 'table' then
  return token
end
if not token then
  return {'FREE'}
end
local reply = {'RELEASED', token, 0}
redis.call('DEL', lock, members)
local waiter = redis.call('LPOP', queue)

