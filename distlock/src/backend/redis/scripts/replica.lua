-- Library: detects that this server is a replica.

-- Returns the error of a replica, or nil. A replica may have old data. It refuses every write, even one that changes
-- nothing.
local function refused_by_replica(lock)
  local refused = redis.pcall('LPOP', lock, 0)
  if type(refused) == 'table' and refused.err and string.find(refused.err, 'READONLY', 1, true) then
    return refused
  end
end

