-- Library: finding out that a replica replies.

-- The error of a replica, or nil. A replica may reply from old data. It refuses to write, even a write that changes
-- nothing.
local function refused_by_replica(lock)
  local refused = redis.pcall('LPOP', lock, 0)
  if type(refused) == 'table' and refused.err and string.find(refused.err, 'READONLY', 1, true) then
    return refused
  end
end

