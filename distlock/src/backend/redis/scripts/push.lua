-- Library: a push to one client.
--
-- channels: prefix of the clients' channels. It ends with the hash tag of the lock's slot if this is a cluster whose
-- nodes know SPUBLISH. Then a push stays at this node if the client is subscribed to the channel with the tag here: it
-- has waited in this slot before, and is not of an earlier version. Every client is subscribed to the channel without
-- the tag, on which PUBLISH sends a push to all nodes.

-- Returns how many subscribers of this node were told, or an error (no permission).
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

