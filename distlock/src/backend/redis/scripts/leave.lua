-- Releases a lock and grants it to the next waiter, or removes the token from the queue. So it undoes an earlier
-- command of the token, whatever this command has done. (Behind leave_fast.lua, clock.lua, push.lua, gap.lua,
-- hand_on.lua, queue.lua, members.lua and serve.lua.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   token  keep_taken_for ms (0: none)  handoffs_began us  settings  [from]
--        or, for neither: token  settings
--        keep_taken_for: the key stays taken for this time, without a holder
--        handoffs_began: when the current run of hand-offs began; 0: it begins now
--        settings: `<count> <poll_gap ms, 0: none> <poll_gap_interval us> <channel prefix>`, the same for every lock of
--                  a client, except for the slot's hash tag in the channel prefix (see push.lua)
--        poll_gap_interval: the average time between two gaps (see gap.lua)
--                          0: a member of a quorum; the reply tells whether the lock was handed on
--        count: 1 if PUBLISH counts every subscriber, so the result 0 proves that there is none
--        from: the name of this server in its pushes
-- Reply  `RELEASED <token>`   the lock was ours, and it had no waiter
--        {RELEASED, token, 1 if the lock was left free for plain pollers, or, with the interval 0, granted to a waiter}
--        {CANCELLED, token}   the lock was not ours, the queue entry was
--        {NOT_YOURS, token}   neither was

local keys = {lock = KEYS[1], queue = KEYS[2], entries = KEYS[3], counter = KEYS[4], members = KEYS[5]}
local token, keep_taken_for = ARGV[1], ARGV[4] and tonumber(ARGV[2]) or 0
local run = {
  now = server_time(), held = '', waiter = waiter, handoffs_began = handoffs_began,
  poll_gap = poll_gap, poll_gap_interval = poll_gap_interval, count = count == '1', channels = channels, from = from,
}
local reply = {'RELEASED', token, 0}

if held == token then
  if keep_taken_for > 0 then
    -- The value must change. Otherwise a late command of this token would still act on the key.
    redis.call('SET', keys.lock, 'dl1:hold', 'PX', keep_taken_for)
    return reply
  end
else
  local marked = type(held) == 'string' and is_marker(held) and is_paired(keys.lock, keys.members, run.now)
  if marked and redis.call('ZREM', keys.members, token) == 1 then
    if keep_taken_for > 0 then
      redis.call('ZADD', keys.members, text(run.now + keep_taken_for * 1000), 'dl1:hold:' .. token)
    end
  elseif dequeue(keys.queue, keys.entries, token) then
    reply = {'CANCELLED', token}
    if not marked then
      return reply
    end
  else
    return {'NOT_YOURS', token}
  end
  -- A waiter behind it may be compatible now. There is no gap, because plain pollers wait for the last member.
  run.poll_gap = 0
  run.ends = drop_expired_members(keys.lock, keys.members, run.now)
  run.held = run.ends and held or ''
end

run.waiter = run.waiter or redis.call('LPOP', keys.queue)
if serve(keys, run) then
  reply[3] = 1
end
return reply
