-- Releases a lock whichever token holds it, or ends the lease of one holder, and serves the queue.
-- (Behind clock.lua, replica.lua, push.lua, gap.lua, queue.lua, members.lua and serve.lua.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   channel prefix (as for push)  count  [from  [owner]]
--        count, from: as for leave; from: '' for none
--        owner: a token of any client; the lock is released only if this token holds it, alone or with others
-- Reply  {FREE}, {RELEASED, holder, 0}, {NOT_HELD} by the owner, or a WRONGTYPE error for a key that is not a string

local keys = {lock = KEYS[1], queue = KEYS[2], entries = KEYS[3], counter = KEYS[4], members = KEYS[5]}
local holder = redis.pcall('GET', keys.lock)
if type(holder) == 'table' then
  return holder
end
if not holder then
  return refused_by_replica(keys.lock) or {'FREE'}
end
local owner, now, ends = ARGV[4] or holder, server_time(), false
if owner == holder then
  redis.call('DEL', keys.lock, keys.members)
  tell_wanted(holder, keys.lock, ARGV[1])
elseif is_marker(holder) and is_paired(keys.lock, keys.members, now)
  and drop_expired_members(keys.lock, keys.members, now)
  and redis.call('ZREM', keys.members, owner) == 1 then
  ends = drop_expired_members(keys.lock, keys.members, now)
else
  return refused_by_replica(keys.lock) or {'NOT_HELD'}
end
serve(keys, {
  now = now, held = ends and holder or '', ends = ends, waiter = redis.call('LPOP', keys.queue),
  handoffs_began = 0, poll_gap = 0, poll_gap_interval = 0,
  count = ARGV[2] == '1', channels = ARGV[1], from = (ARGV[3] or '') ~= '' and '@' .. ARGV[3] or '',
})
return {'RELEASED', owner, 0}
