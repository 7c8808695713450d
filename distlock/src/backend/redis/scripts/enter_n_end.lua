-- Last part of enter_n.lua, behind front.lua, queue.lua, members.lua and enter_n_admit.lua.

local status, holder, left = enter()
if status == 'ERROR' then
  return holder
end
local place
if status == 'BUSY' then
  place = mode ~= 'try' and enqueue(kind) or 0
elseif (mode == 'held' or mode == 'heldpoll') and (status == 'FRESH' or status == 'MINE') then
  if redis.call('HDEL', entries, token) == 1 then
    redis.call('LREM', queue, 1, token)
  end
end
return {status, token, text(server_time), holder, left, place}
