-- Second part of the script, behind leave_args.lua, clock.lua and members.lua.

server_time = now()
if held == token then
  if keep_taken_for > 0 then
    -- The value must change, or a late command of this token would move the key.
    redis.call('SET', lock, 'dl1:hold', 'PX', keep_taken_for)
    return reply
  end
else
  local marked = type(held) == 'string' and is_marker(held) and is_paired()
  if marked and redis.call('ZREM', members, token) == 1 then
    if keep_taken_for > 0 then
      redis.call('ZADD', members, text(server_time + keep_taken_for * 1000), 'dl1:hold:' .. token)
    end
  elseif redis.call('HDEL', entries, token) == 1 then
    redis.call('LREM', queue, 1, token)
    reply = {'CANCELLED', token}
    if not marked then
      return reply
    end
  else
    return {'NOT_YOURS', token}
  end
  -- Whoever stood behind may be able to enter now. There is no gap: plain pollers wait for the last member.
  poll_gap = 0
  if drop_expired_members() then
    there = held
  end
end

waiter = waiter or redis.call('LPOP', queue)
if not waiter then
  if there == '' then
    redis.call('DEL', lock)
  end
  return reply
end

