-- Makes a VM under `lio --watch` report the files that it loads: by `require` (Lua and C modules), `loadfile` and
-- `dofile`; and the missing files that `require` has tried to load. Run once in each VM, before any code of the
-- program, with the functions that report a file and a missing file (src/modules/supervisor.rs); `lio test` requires it
-- and calls its result with such functions. Invariant: a file is reported before it is read, even if it does not load.
-- A missing file is reported even if it has been created meanwhile, so that the supervisor restarts the program.

-- `install(report_file, report_missing)`: makes this VM report files.
local function install(report_file, report_missing)
  local load_file <const>, do_file <const> = loadfile, dofile
  local searchpath <const> = package.searchpath

  local function report_found(name, path)
    local file = type(path) == "string" and searchpath(name, path)
    if file then report_file(file) end
    return file
  end

  -- Searchers that never find a module, but report the file that the next searcher will find.
  local function before_lua(name) report_found(name, package.path) end

  local function before_c(name)
    if report_found(name, package.cpath) then return end
    local root = name:match "^([^.]+)%."
    if root then report_found(root, package.cpath) end
  end

  -- The searcher for built-in modules is between Lua's two searchers for files, and reports nothing.
  table.insert(package.searchers, #package.searchers - 1, before_c)
  table.insert(package.searchers, 2, before_lua)

  local function report_all_missing(name, templates)
    if type(templates) ~= "string" then return end
    local file = name:gsub("%.", package.config:sub(1, 1))
    for template in templates:gmatch "[^;]+" do
      report_missing((template:gsub("%?", (file:gsub("%%", "%%%%")))))
    end
  end

  -- The last searcher is called only for a module that no other searcher has found.
  table.insert(package.searchers, function(name)
    report_all_missing(name, package.path)
    report_all_missing(name, package.cpath)
  end)

  local function report_argument(path)
    if type(path) == "string" and path ~= "" then report_file(path) end
  end

  function loadfile(path, ...) -- luacheck: ignore
    report_argument(path)
    return load_file(path, ...)
  end

  function dofile(path) -- luacheck: ignore
    report_argument(path)
    return do_file(path)
  end
end

if type((...)) == "function" then install(...) end

return install
