-- Library: the queue, a list of tokens, and the hash of their entries (behind push.lua):
-- `<expires us> <claim ms> <fences> <w: the grant is pushed, or p: the waiter asks by itself> <kind: e, s, p:<limit>>`.
--
-- Push  `w <token> <lock>`   somebody wants the lock: its holder is not to keep it after its section; or a writer
--                            waits, and no other readers are to join those who have it

-- The first waiter in the queue that is alive. Dead entries in front of it are dropped.
local function front(queue, entries, now)
  local head = redis.call('LINDEX', queue, 0)
  while head do
    local entry = redis.call('HGET', entries, head)
    if entry and tonumber(string.match(entry, '^%d+') or 0) > now then
      break
    end
    redis.call('LPOP', queue)
    redis.call('HDEL', entries, head)
    head = redis.call('LINDEX', queue, 0)
  end
  return head
end

-- Whether the caller's token may be in the queue already.
local function may_be_queued(mode)
  return mode == 'held' or mode == 'heldpoll'
end

-- Lets a waiter keep its place, and get a lock that is free, even if the server has no memory left. The
-- server checks for memory only at a script's first write, and this write needs none. So it must be the
-- first.
local function keep_place(entries, queue_entry_ttl)
  redis.call('PEXPIRE', entries, 2 * queue_entry_ttl)
end

-- Adds the token to the queue, or refreshes its entry in its place. Drops the dead entries in front of it,
-- which would delay the polling of the front. Returns 1 if the token is the front.
local function enqueue(queue, entries, token, now, queue_entry_ttl, claim, fences, mode, kind)
  local how = (mode == 'wait' or mode == 'held') and 'w' or 'p'
  local entry = text(now + queue_entry_ttl * 1000) .. ' ' .. claim .. ' ' .. fences .. ' ' .. how .. ' ' .. kind
  -- Either of the two keys may hold a value of another program: in this order the script fails before it has
  -- written anything.
  if not redis.call('HGET', entries, token) then
    redis.call('RPUSH', queue, token)
  end
  redis.call('HSET', entries, token, entry)
  redis.call('PEXPIRE', queue, 2 * queue_entry_ttl)
  redis.call('PEXPIRE', entries, 2 * queue_entry_ttl)
  return front(queue, entries, now) == token and 1 or 0
end

-- Whether the token was in the queue.
local function dequeue(queue, entries, token)
  if redis.call('HDEL', entries, token) == 0 then
    return false
  end
  redis.call('LREM', queue, 1, token)
  return true
end

-- A holder whose token's number begins with 0 may keep the lock after its section, and gives it up when it is told
-- that somebody wants it. A failed PUBLISH (no permission) costs time only: the holder gives it up in the end.
-- channels: as for push; nothing is told without it.
local function tell_wanted(holder, lock, channels)
  local client = channels and string.match(holder, '^dl1:(.*):0%d+$')
  if client then
    push(channels, client, 'w ' .. holder .. ' ' .. lock)
  end
end

-- A writer queues behind these readers, each with its expiry: they are to let no others join them. (Clients
-- of the first release ignore it.)
local function tell_readers(readers, now, lock, channels)
  for i = 1, channels and #readers or 0, 2 do
    local reader = readers[i]
    local client = tonumber(readers[i + 1]) > now and string.match(reader, '^dl1:([^:]*):%d+$')
    if client then
      push(channels, client, 'w ' .. reader .. ' ' .. lock)
    end
  end
end

-- The token was let in. Those who are in the queue already were not told by whom: its holder is.
local function tell_of_queue(queue, token, lock, channels)
  if channels and string.find(token, ':0%d+$') and redis.pcall('LLEN', queue) ~= 0 then
    tell_wanted(token, lock, channels)
  end
end

