-- Last part of enter_all_n.lua, behind front.lua, members.lua and enter_n_admit.lua.

local replies = {}
for i = 1, #KEYS / 4 do
  local at = 4 * i
  lock, queue, entries, members = KEYS[at - 3], KEYS[at - 2], KEYS[at - 1], KEYS[at]
  token = ARGV[i + 2]
  local status, holder, left = enter()
  if status == 'ERROR' then
    return holder
  end
  replies[i] = {status, token, text(server_time), holder, left, left and 0}
  if status ~= 'FRESH' and status ~= 'MINE' then
    break
  end
end
return replies
