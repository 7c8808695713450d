-- Library: a push to one client.
--
-- channels: prefix of the clients' channels. It ends with the hash tag of the lock's slot if this is a cluster whose
-- nodes support SPUBLISH. A client that has waited in this slot before is subscribed here to its channel with the tag,
-- unless it is of an earlier version. Then the push stays on this node. Otherwise PUBLISH sends it to all nodes, on the
-- channel without the tag, to which every client is subscribed.

-- Returns how many subscribers of this node received it, or an error (no permission).
local function push(channels, client, message)
  if string.sub(channels, -1) == '}' then
    local told = redis.pcall('SPUBLISH', channels .. client, message)
    if type(told) == 'number' and told > 0 then
      return told
    end
    channels = string.gsub(channels, '{%d+}$', '')
  end
  return redis.pcall('PUBLISH', channels .. client, message)
end

