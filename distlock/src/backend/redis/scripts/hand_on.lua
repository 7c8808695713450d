-- Second part of leave.lua, for the usual case: the first waiter wants an exclusive lock, receives pushes, and no gap
-- is due. In all other cases, leave.lua serves the queue, also if this waiter turns out to be gone. (Behind
-- leave_fast.lua, clock.lua, push.lua and gap.lua.) Reads the arguments for leave.lua.

local count, poll_gap, poll_gap_interval, channels =
  string.match(ARGV[4] or ARGV[2], '^(%d) (%d+) (%d+) (.*)$')
local handoffs_began, from = tonumber(ARGV[3] or 0), ARGV[5] and '@' .. ARGV[5] or ''
poll_gap, poll_gap_interval = tonumber(poll_gap), tonumber(poll_gap_interval)

if waiter then
  local lock, entries, now = KEYS[1], KEYS[3], server_time()
  local entry = redis.call('HGET', entries, waiter)
  local expiry, claim, fences = string.match(entry or '', '^(%d+) (%d+) (%d+) w e$')
  local began = handoffs_began == 0 and now or handoffs_began
  if expiry and tonumber(expiry) > now and poll_gap_interval ~= 0
    and not gap_is_due(poll_gap, poll_gap_interval, began, now) then
    local fence = fences == '0' and '0' or text(reserve_fences(KEYS[4], tonumber(fences), now))
    local client = string.match(waiter, '^dl1:(.*):%d+$') or ''
    -- The push that serve.lua describes. As there, it comes before the SET.
    local message = 'g ' .. text(now) .. from .. ' ' .. text(began) .. ' ' .. fence .. ' ' .. waiter
      .. ' ' .. lock
    if push(channels, client, message) ~= 0 or count ~= '1' then
      redis.call('HDEL', entries, waiter)
      redis.call('SET', lock, waiter, 'PX', claim)
      return {'RELEASED', ARGV[1], 0}
    end
    redis.call('HDEL', entries, waiter)
    waiter = redis.call('LPOP', KEYS[2])
  end
end

