-- A service that responds with the arguments of a request.

local S = {}

function S.ping(...) return ... end

return S
