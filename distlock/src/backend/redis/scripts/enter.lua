-- Acquires a lock, queues for it, keeps the place in the queue, and claims a grant. Idempotent by token.
-- (Behind clock.lua.)
--
-- KEYS   lock  queue  entries  fence counter
-- ARGV   token  ttl ms  claim ms  keep ms  fences (0: unfenced)  mode
--        mode: try   do not queue
--              wait  queue; the grant is pushed
--              poll  queue; nobody listens for pushes
--              held, heldpoll: wait, poll with a token that may be queued already
-- Reply  {FRESH, token, us [, first fence]}   the lock was free and is ours
--        {MINE, token, us [, first fence]}    it was ours; its lease is at least ttl now
--        {BUSY, token, us, holder, holder's PTTL, 1 if we are the front of the queue}
--        {WRONGTYPE, token, us}               the key is not a string
--
-- A free lock is taken by whoever asks, not served to the queue: the caller is provably alive.

local lock, queue, entries, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, mode = ARGV[1], ARGV[2], ARGV[6]
local again = mode == 'held' or mode == 'heldpoll'
local us = now()

local status, holder
if redis.call('SET', lock, token, 'NX', 'PX', ttl) then
  status = 'FRESH'
else
  holder = redis.pcall('GET', lock)
  if type(holder) == 'table' then
    if string.find(holder.err, 'WRONGTYPE', 1, true) then
      return {'WRONGTYPE', token, text(us)}
    end
    return holder
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
    return {status, token, text(us), text(mint(counter, fences, us))}
  end
  return {status, token, text(us)}
end

local front = 0
if mode ~= 'try' then
  local keep = tonumber(ARGV[4])
  local kind = (mode == 'wait' or mode == 'held') and 'w' or 'p'
  local entry = text(us + keep * 1000) .. ' ' .. ARGV[3] .. ' ' .. ARGV[5] .. ' ' .. kind
  if redis.call('HSET', entries, token, entry) == 1 then
    redis.call('RPUSH', queue, token)
  end
  redis.call('PEXPIRE', queue, 2 * keep)
  redis.call('PEXPIRE', entries, 2 * keep)
  -- The dead in front of us would hold up the polling of the front.
  local head = redis.call('LINDEX', queue, 0)
  while head and head ~= token do
    local other = redis.call('HGET', entries, head)
    if other and tonumber(string.match(other, '^%d+') or 0) > us then
      break
    end
    redis.call('LPOP', queue)
    redis.call('HDEL', entries, head)
    head = redis.call('LINDEX', queue, 0)
  end
  if head == token then
    front = 1
  end
end
return {'BUSY', token, text(us), holder or '', redis.call('PTTL', lock), front}
