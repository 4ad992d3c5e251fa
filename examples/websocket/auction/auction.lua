-- The auction of one item, as a service.

local json = require "lio.json"
local ltask = require "ltask"

local name, site, seconds = ...

local price, bidder, is_sold, bids = 0, nil, false, 0

local function state()
  return { item = name, price = price, bidder = bidder, sold = is_sold }
end

-- The message is encoded here, on this service's thread, and only once for all connections.
local function publish()
  ltask.send(site, "publish", name, json.encode(state()))
end

-- Sells the item unless another bid arrives within the time.
local function wait_for_bids()
  local before = bids
  ltask.sleep(math.floor(seconds * 100))
  if bids > before then return end
  is_sold = true
  publish()
end

local S = {}

S.state = state

-- Returns true, or false and the reason.
function S.bid(who, amount)
  if is_sold then return false, "the item is sold" end
  if amount <= price then return false, "a bid must be higher than " .. price end
  price, bidder, bids = amount, who, bids + 1
  publish()
  ltask.fork(wait_for_bids)
  return true
end

return S
