-- The same as enter.lua for shared and limited locks. (Behind clock.lua, push.lua, queue.lua, members.lua
-- and join.lua.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   token  ttl ms  claim ms  queue_entry_ttl ms  0  mode  kind  [channel prefix]
--        mode: as for enter
--        kind: s (shared), p:<limit>
-- Reply  {FRESH, token, server_time}, {MINE, token, server_time}, {WRONGTYPE, token, server_time} as for enter
--        {BUSY, token, server_time, a holder, ms until a lease may expire, 1 if we are at the front}
--        {WRONGKIND, token, server_time, marker or holder}
--            the key is a lock of another kind; if it is our own marker, managers with another key prefix have set it
--
-- Any caller acquires a free lock. While the lock has holders of the same kind, only the waiter at the front of the
-- queue may join them, or any caller if there is no queue. So a later reader does not overtake a waiting writer.

local lock, queue, entries, members = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local token, ttl, claim, queue_entry_ttl = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local mode, kind = ARGV[6], ARGV[7]
local now = server_time()

if may_be_queued(mode) then
  keep_place(entries, queue_entry_ttl)
end

local status, holder, left = join(lock, queue, entries, members, token, ttl, kind, now)
if status == 'ERROR' then
  return holder
end
local place
if status == 'BUSY' then
  place = mode ~= 'try' and enqueue(queue, entries, token, now, queue_entry_ttl, claim, '0', mode, kind) or 0
  tell_wanted(holder, lock, ARGV[8])
elseif may_be_queued(mode) and (status == 'FRESH' or status == 'MINE') then
  dequeue(queue, entries, token)
end
return {status, token, text(now), holder, left, place}
