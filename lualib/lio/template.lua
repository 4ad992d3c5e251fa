-- `lio.template`: text from templates in the language of Jinja, for HTML pages and other text.
--
--   local template = require "lio.template"
--   local views = template.new "views"
--   local page = views:render("page.html", { title = "Hello", items = { "a", "b" } })
--
-- The templates are native (src/modules/template); this file checks the arguments. A mistake in a template is a mistake
-- of the program: it raises at the line that renders, and names the file and the line of the template.

local core = require "lio.template.core"
local misuse = require "lio.misuse"
local options = require "lio.options"

local M = {}

local Views = { __name = "lio.views" }
Views.__index = Views

-- The name of a template that is rendered from a string. With the extension, its values are escaped for HTML.
local STRING <const> = "string.html"

local OPTIONS <const> = {
  folder = options.string,
  templates = options.table,
  globals = options.table,
  autoescape = options.boolean,
  undefined = options.one_of("lenient", "strict", "chainable"),
  reload = options.boolean,
  fuel = options.either(options.is_false, options.integer(1)),
  recursion = options.integer(1, 500),
  trim_blocks = options.boolean,
  lstrip_blocks = options.boolean,
  keep_trailing_newline = options.boolean,
}

-- The defaults of the limits. A template that is not an endless loop needs fewer steps.
local FUEL <const>, RECURSION <const> = 5000000, 200

-- Returns the native object. Raises if `views` is not an object of this class, or is closed.
local function core_of(views, call)
  if getmetatable(views) ~= Views then misuse.no_colon("views", call) end
  return views.core or misuse.raise(("views:%s: the views are closed"):format(call))
end

-- Raises unless an argument is a string of UTF-8.
local function check_text(call, index, text)
  misuse.check(call, index, text, "string")
  if not utf8.len(text) then misuse.bad(call, index, "UTF-8 text expected") end
end

local function add_templates(views, templates)
  for name, source in pairs(templates) do
    if type(name) ~= "string" or type(source) ~= "string" then
      misuse.raise "template.new: option 'templates' must map names to the sources of templates"
    end
    if not (utf8.len(name) and utf8.len(source)) then
      misuse.raise(("template.new: option 'templates': %s is not UTF-8 text"):format(misuse.shown(name)))
    end
    local ok, message = views.core:add(name, source)
    if not ok then misuse.raise("template.new: " .. message) end
  end
end

-- `template.new([folder,] [opts])` returns the templates of a folder. Options: `folder`; `templates` (a table that maps
-- names to sources, for templates without a file); `globals` (variables of every template); `autoescape` (true: values
-- are escaped for HTML in every template; false: in none; by default, the extension of a template's name decides);
-- `undefined` ("lenient": a missing variable is empty, "strict": it raises, "chainable": fields of a missing variable
-- are empty, too); `reload` (true: changed files are read again, for development); `fuel` (how many steps a rendering
-- may take, or false for no limit); `recursion` (how many templates may be open); `trim_blocks`, `lstrip_blocks`,
-- `keep_trailing_newline` (whitespace).
function M.new(folder, opts)
  if type(folder) == "table" and opts == nil then folder, opts = nil, folder end
  if folder ~= nil then misuse.check("new", 1, folder, "string") end
  opts = options.check("template.new", 2, opts, OPTIONS)
  if folder and opts.folder then misuse.raise "template.new: the folder is given twice" end
  folder = folder or opts.folder
  local settings = { undefined = "lenient", fuel = FUEL, recursion = RECURSION }
  for name, value in pairs(opts) do settings[name] = value end
  if settings.fuel == false then settings.fuel = nil end
  local native, message = core.new(folder, settings)
  if not native then
    misuse.raise(("template.new: cannot open the folder '%s': %s"):format(folder, message:gsub("^open: ", "")))
  end
  local views = setmetatable({ core = native }, Views)
  local ok
  ok, message = native:set_globals(opts.globals or {})
  if not ok then misuse.raise("template.new: option 'globals': " .. message) end
  if opts.templates then add_templates(views, opts.templates) end
  return views
end

-- `views:render(name [, data])` returns the text of the template `name`, a path below the folder. `data` is a table of
-- variables. Raises for a mistake in the template, and for a value that a template cannot use.
function Views:render(name, data)
  local native = core_of(self, "render")
  check_text("render", 1, name)
  if data ~= nil then misuse.check("render", 2, data, "table") end
  local text, message = native:render(name, data)
  if not text then misuse.raise("views:render: " .. message) end
  return text
end

-- `views:render_string(source [, data [, name]])` renders a template from a string. It may include and extend the
-- templates of the folder. `name` is used in messages, and its extension decides whether values are escaped; by
-- default, they are escaped for HTML.
function Views:render_string(source, data, name)
  local native = core_of(self, "render_string")
  check_text("render_string", 1, source)
  if data ~= nil then misuse.check("render_string", 2, data, "table") end
  if name ~= nil then check_text("render_string", 3, name) end
  local text, message = native:render_string(source, data, name or STRING)
  if not text then misuse.raise("views:render_string: " .. message) end
  return text
end

-- `views:close()`: closes the folder, which is an open descriptor. May be called twice.
function Views:close()
  if getmetatable(self) ~= Views then misuse.no_colon("views", "close") end
  if self.core then self.core:close() end
  self.core = nil
end
Views.__close = Views.close

return M
