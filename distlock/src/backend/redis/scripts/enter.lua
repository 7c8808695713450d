-- Acquires a lock, enters its queue, extends the queue entry, and claims a grant. Idempotent by token.
-- (Behind clock.lua, push.lua and queue.lua.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   token  ttl ms  claim ms  queue_entry_ttl ms  fences (0: unfenced)  mode  [channel prefix]
--        mode: try   do not queue
--              wait  queue; the grant is pushed
--              poll  queue; the waiter polls and gets no push
--              held, heldpoll: wait, poll with a token that may be queued already
--        channel prefix: as for push, for the notification of a holder that others want the lock (see queue.lua)
-- Reply  {FRESH, token, server_time [, first fence]}   the lock was free and is ours
--        {MINE, token, server_time [, first fence]}    the lock was ours; its lease is at least ttl now
--        {BUSY, token, server_time, holder (of several the last to expire), its PTTL, 1 if we are at the front}
--        {WRONGTYPE, token, server_time}               the key is not a string
--        {WRONGKIND, token, server_time, marker}       the key is a limited lock
--        server_time: the server's time
--
-- The caller acquires a free lock even if there is a queue, because the caller is provably alive.

local lock, queue, entries, counter, members = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl, claim, queue_entry_ttl, fences, mode = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local now = server_time()

if may_be_queued(mode) then
  keep_place(entries, queue_entry_ttl)
end

local status, holder
local readers = {}
if redis.call('SET', lock, token, 'NX', 'PX', ttl) then
  status = 'FRESH'
else
  holder = redis.pcall('GET', lock)
  if type(holder) == 'table' then
    if string.find(holder.err, 'WRONGTYPE', 1, true) then
      return {'WRONGTYPE', token, text(now)}
    end
    return holder
  end
  if holder and string.sub(holder, 1, 6) == 'dl1:p:' then
    return {'WRONGKIND', token, text(now), holder}
  end
  if holder == 'dl1:s' then
    -- A user without the permission to read the set gets the marker as the holder.
    readers = redis.pcall('ZREVRANGE', members, 0, 63, 'WITHSCORES')
    holder = readers[1] or holder
  end
  if holder == token then
    status = 'MINE'
    -- Never shortens.
    if redis.call('PTTL', lock) < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
    end
  end
end

if not status then
  local place = 0
  if mode ~= 'try' then
    place = enqueue(queue, entries, token, now, queue_entry_ttl, claim, fences, mode, 'e')
  end
  tell_wanted(holder or '', lock, ARGV[7])
  if mode == 'wait' or mode == 'poll' then
    tell_readers(readers, now, lock, ARGV[7])
  end
  return {'BUSY', token, text(now), holder or '', redis.call('PTTL', lock), place}
end

if may_be_queued(mode) then
  dequeue(queue, entries, token)
end
tell_of_queue(queue, token, lock, ARGV[7])
if fences ~= '0' then
  return {status, token, text(now), text(reserve_fences(counter, tonumber(fences), now))}
end
return {status, token, text(now)}
