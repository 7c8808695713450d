-- Returns a part of the names on this server. Names that are too long for a lock are left out here, because other
-- programs may have written them.
--
-- ARGV   cursor  pattern  count  longest name
-- Reply  {next cursor, {name, ..}}

local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local names = {}
for _, name in ipairs(found[2]) do
  if #name <= tonumber(ARGV[4]) then
    names[#names + 1] = name
  end
end
return {found[1], names}
