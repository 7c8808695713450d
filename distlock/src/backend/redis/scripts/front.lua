-- Shared part: the first in the queue who is alive; the dead before it are dropped. Takes: queue, entries, server_time.

local function front()
  local head = redis.call('LINDEX', queue, 0)
  while head do
    local entry = redis.call('HGET', entries, head)
    if entry and tonumber(string.match(entry, '^%d+') or 0) > server_time then
      break
    end
    redis.call('LPOP', queue)
    redis.call('HDEL', entries, head)
    head = redis.call('LINDEX', queue, 0)
  end
  return head
end
