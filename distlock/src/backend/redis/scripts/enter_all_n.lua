-- The same as enter_all.lua for shared locks. (Behind clock.lua, push.lua, queue.lua, members.lua and
-- join.lua.)
--
-- KEYS   lock  queue  entries  members of each lock, in order
-- ARGV   ttl ms  kind  channel prefix  then a token for each lock
--        kind, channel prefix: as for enter_n
-- Reply  the reply of enter_n in mode `try` for each lock, up to and including the first that is not acquired

local ttl, kind, channels, now = tonumber(ARGV[1]), ARGV[2], ARGV[3], server_time()
local replies = {}

for i = 1, #KEYS / 4 do
  local at, token = 4 * i, ARGV[i + 3]
  local status, holder, left = join(KEYS[at - 3], KEYS[at - 2], KEYS[at - 1], KEYS[at], token, ttl, kind, now)
  if status == 'ERROR' then
    return holder
  end
  replies[i] = {status, token, text(now), holder, left, left and 0}
  if status == 'BUSY' then
    tell_wanted(holder, KEYS[at - 3], channels)
  end
  if status ~= 'FRESH' and status ~= 'MINE' then
    break
  end
end
return replies
