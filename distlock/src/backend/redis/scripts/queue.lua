-- Shared part: standing in the queue. Takes from enter.lua or enter_n.lua: queue, entries, token, server_time, ARGV.

-- Adds this token to the queue, or refreshes its entry where it stands; drops the dead in front of it, who
-- would hold up the polling of the front. Returns 1 if it is the front.
local function enqueue(kind)
  local mode, queue_entry_ttl = ARGV[6], tonumber(ARGV[4])
  local how = (mode == 'wait' or mode == 'held') and 'w' or 'p'
  local entry = text(server_time + queue_entry_ttl * 1000) .. ' ' .. ARGV[3] .. ' ' .. ARGV[5] .. ' ' .. how .. ' ' .. kind
  -- Either of the two keys may hold somebody else's value: both are met before anything is written.
  if not redis.call('HGET', entries, token) then
    redis.call('RPUSH', queue, token)
  end
  redis.call('HSET', entries, token, entry)
  redis.call('PEXPIRE', queue, 2 * queue_entry_ttl)
  redis.call('PEXPIRE', entries, 2 * queue_entry_ttl)
  return front() == token and 1 or 0
end
