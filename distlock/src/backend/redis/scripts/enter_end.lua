-- Last part of enter.lua, behind front.lua and queue.lua.

local place = 0
if mode ~= 'try' then
  place = enqueue('e')
end
return {'BUSY', token, text(server_time), holder or '', redis.call('PTTL', lock), place}
