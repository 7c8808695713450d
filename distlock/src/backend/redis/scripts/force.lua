-- Deletes a lock whichever token holds it, and serves the queue.
-- (Behind clock.lua, gap.lua, queue.lua, members.lua and serve.lua.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   channel prefix  count  from (the last two as for leave)
-- Reply  {FREE}, {RELEASED, holder, 0}, or a WRONGTYPE error for a key that is not a string

local keys = {lock = KEYS[1], queue = KEYS[2], entries = KEYS[3], counter = KEYS[4], members = KEYS[5]}
local holder = redis.pcall('GET', keys.lock)
if type(holder) == 'table' then
  return holder
end
if not holder then
  return {'FREE'}
end
redis.call('DEL', keys.lock, keys.members)
tell_wanted(holder, keys.lock, ARGV[1])
serve(keys, {
  now = server_time(), held = '', waiter = redis.call('LPOP', keys.queue),
  handoffs_began = 0, poll_gap = 0, poll_gap_interval = 0,
  count = ARGV[2] == '1', channels = ARGV[1], from = ARGV[3] or '',
})
return {'RELEASED', holder, 0}
