-- Formats results: numbers, targets, and whether a target is met. A row may have a target in the field `least` or
-- `most`.

local M = {}

-- Returns a number as a string: with four digits below 10,000, as a whole number with commas from 10,000 on.
function M.number(value)
  if value == 0 then return "0" end
  if math.abs(value) >= 10000 then
    local text = ("%.0f"):format(value)
    return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
  end
  return (("%.4g"):format(value):gsub("%.0+$", ""))
end

-- Returns a row's target as a string, or "" if it has none.
function M.target(row)
  if row.least then return "≥ " .. M.number(row.least) end
  if row.most then return row.most == 0 and "0" or "≤ " .. M.number(row.most) end
  return ""
end

-- Returns a string that says whether `value` meets the row's target, or "" if the row has none.
function M.verdict(row, value)
  if row.least then return value >= row.least and "yes" or ("no: %.2f of it"):format(value / row.least) end
  if row.most then return value <= row.most and "yes" or "**no**" end
  return ""
end

return M
