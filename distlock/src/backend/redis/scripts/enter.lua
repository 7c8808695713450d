-- Acquires a lock, queues for it, keeps the place in the queue, and claims a grant. Idempotent by token.
-- (Behind clock.lua; front.lua and queue.lua stand before the end.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   token  ttl ms  claim ms  queue_entry_ttl ms  fences (0: unfenced)  mode
--        mode: try   do not queue
--              wait  queue; the grant is pushed
--              poll  queue; nobody listens for pushes
--              held, heldpoll: wait, poll with a token that may be queued already
-- Reply  {FRESH, token, server_time [, first fence]}   the lock was free and is ours
--        {MINE, token, server_time [, first fence]}    it was ours; its lease is at least ttl now
--        {BUSY, token, server_time, holder (of several the last to go), its PTTL, 1 if we are the front of the queue}
--        {WRONGTYPE, token, server_time}               the key is not a string
--        {WRONGKIND, token, server_time, marker}       the key is a limited lock
--
-- A free lock is taken by whoever asks, not served to the queue: the caller is provably alive.

local lock, queue, entries, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, mode = ARGV[1], ARGV[2], ARGV[6]
local again = mode == 'held' or mode == 'heldpoll'
local server_time = now()

if again then
  -- Whoever is queued keeps the place, and gets a lock that is free, even where there is no memory for more: that
  -- is checked at a script's first write only, and this one needs none.
  redis.call('PEXPIRE', entries, 2 * tonumber(ARGV[4]))
end

local status, holder
if redis.call('SET', lock, token, 'NX', 'PX', ttl) then
  status = 'FRESH'
else
  holder = redis.pcall('GET', lock)
  if type(holder) == 'table' then
    if string.find(holder.err, 'WRONGTYPE', 1, true) then
      return {'WRONGTYPE', token, text(server_time)}
    end
    return holder
  end
  if holder and string.sub(holder, 1, 6) == 'dl1:p:' then
    return {'WRONGKIND', token, text(server_time), holder}
  end
  if holder == 'dl1:s' then
    -- Who may use exclusive locks only is refused, and sees the marker.
    holder = redis.pcall('ZREVRANGE', KEYS[5], 0, 0)[1] or holder
  end
  if holder == token then
    status = 'MINE'
    -- Never shortens.
    if redis.call('PTTL', lock) < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
    end
  end
end

if status then
  if again and redis.call('HDEL', entries, token) == 1 then
    redis.call('LREM', queue, 1, token)
  end
  local fences = tonumber(ARGV[5])
  if fences > 0 then
    return {status, token, text(server_time), text(mint(counter, fences, server_time))}
  end
  return {status, token, text(server_time)}
end

