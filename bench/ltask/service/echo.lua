-- Responds with the arguments of the request.

local S = {}

function S.ping(...) return ... end

return S
