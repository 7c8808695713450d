-- Library: grants a lock to the waiters at the front of the queue that are compatible with its holders: to one
-- exclusive waiter, to all readers at the front, or to as many as the limit allows. (Behind clock.lua, push.lua,
-- gap.lua, queue.lua and members.lua.)
--
-- The push comes before SET, so SET must succeed after a push. A server without enough memory, replicas or disk refuses
-- only the first write of a script. So the script must have written before this part begins, with a command that needs
-- no memory: LPOP in leave, DEL in force.
--
-- Pushes  `g <us>[@<from>] <handoffs_began> <first fence or 0> <token> <lock>`   the lock is granted for your claim
--         `p <token> <lock>`                     the lock is left free; you are the front, ask after the gap

-- Returns whether a waiter of this kind is compatible with the lock's value: its holders' marker, or '' for none.
local function has_room(members, held, kind)
  if held == '' then
    -- This user may lack the permission to use the set. Then the waiter acquires the free lock itself.
    return kind == 'e' or type(redis.pcall('ZCARD', members)) == 'number'
  end
  if kind == 's' or kind == 'e' then
    return kind == 's' and held == 'dl1:s'
  end
  return held == 'dl1:' .. kind and redis.call('ZCARD', members) < limit_of(kind)
end

-- keys: lock, queue, entries, counter, members
-- run:  now; held: the lock's value, '' if the lock has no holder; waiter: popped from the queue, or nothing;
--       handoffs_began: when the run of hand-offs began, 0: now; poll_gap, poll_gap_interval: as for leave;
--       channels: as for push; count: PUBLISH counts every subscriber; from: `@<from>`, or ''
-- Returns whether the lock was left free for plain pollers; with the interval 0, whether it was granted.
local function serve(keys, run)
  local lock, entries, members = keys.lock, keys.entries, keys.members
  local now, held, waiter = run.now, run.held, run.waiter
  local handoffs_began = run.handoffs_began == 0 and now or run.handoffs_began
  local granted_at = text(now) .. run.from
  local gap_is_now = gap_is_due(run.poll_gap, run.poll_gap_interval, handoffs_began, now)

  -- Returns whether the waiter may have received it. A waiter must not lose its grant because PUBLISH fails (no
  -- permission). Its own heartbeat finds the grant.
  local function publish(message)
    local client = string.match(waiter, '^dl1:(.*):%d+$') or ''
    return push(run.channels, client, message) ~= 0 or not run.count
  end

  local function push_grant(fence)
    return publish('g ' .. granted_at .. ' ' .. text(handoffs_began) .. ' ' .. fence .. ' ' .. waiter .. ' ' .. lock)
  end

  local function push_grant_with(fences)
    if fences == '0' then
      return push_grant('0')
    end
    return push_grant(text(reserve_fences(keys.counter, tonumber(fences), now)))
  end

  while waiter do
    local entry = redis.call('HGET', entries, waiter)
    local expiry, claim, fences, how, kind = string.match(entry or '', '^(%d+) (%d+) (%d+) (%a) (%S+)$')
    local alive = expiry and tonumber(expiry) > now
    if alive and not has_room(members, held, kind) then
      put_back(keys.queue, entries, waiter)
      break
    end
    if alive and gap_is_now and run.poll_gap_interval == 0 then
      -- A member of a quorum: the releaser learns that there was a waiter. A waiter that polls would not learn of the
      -- grant, so it is skipped.
      if how ~= 'p' and push_grant('0') then
        redis.call('HDEL', entries, waiter)
        redis.call('SET', lock, waiter, 'PX', claim)
        return true
      end
    elseif alive and gap_is_now then
      if how == 'p' or publish('p ' .. waiter .. ' ' .. lock) then
        put_back(keys.queue, entries, waiter)
        redis.call('DEL', lock)
        return true
      end
    elseif alive and (how == 'p' or push_grant_with(fences)) then
      -- A waiter that polls gets its fencing token when it asks.
      if kind == 'e' then
        redis.call('HDEL', entries, waiter)
        redis.call('SET', lock, waiter, 'PX', claim)
        return false
      end
      local marker, lease_end = 'dl1:' .. kind, now + tonumber(claim) * 1000
      if held == '' then
        add_first_member(lock, members, marker, waiter, lease_end)
      else
        add_member(lock, members, waiter, lease_end, now)
      end
      held = marker
    end
    redis.call('HDEL', entries, waiter)
    waiter = redis.call('LPOP', keys.queue)
  end

  if held == '' then
    redis.call('DEL', lock)
  end
  return false
end

