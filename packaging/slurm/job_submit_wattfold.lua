-- Admission by watts: each job of Slurm takes licences "watts" for the least power at which it is worth running.
--
-- Add one line to the site's own job_submit.lua, after its functions and before its last return:
--
--     pcall(dofile, "/usr/share/wattfold/slurm/job_submit_wattfold.lua")
--
-- The line wraps slurm_job_submit and slurm_job_modify. If this file is missing, jobs are submitted without licences:
-- admission ends, but the caps of the nodes stay within the budget.
--
-- Optional settings, as globals before that line:
--     wattfold_watts_per_core   least power of a core above idle, in watts. Default: 3
--     wattfold_watts_per_node   least power of a whole node above idle, in watts. Default: 40

local per_core = tonumber(wattfold_watts_per_core) or 3
local per_node = tonumber(wattfold_watts_per_node) or 40

-- Slurm writes unset numbers as its largest values of 16, 32 or 64 bits.
local function number(value)
   if type(value) ~= "number" or value < 1 or value >= 4294967294 or value == 65534 or value == 65535 then
      return nil
   end
   return value
end

local function watts_of(desc)
   local nodes = number(desc.min_nodes) or 1
   if desc.shared == 0 then -- --exclusive: whole nodes.
      return math.ceil(nodes * per_node)
   end
   local tasks = number(desc.num_tasks) or nodes
   local cores = math.max(tasks * (number(desc.cpus_per_task) or 1), number(desc.min_cpus) or 1, nodes)
   return math.max(math.ceil(cores * per_core), 1)
end

-- Return the licences other than watts, and the number of watts; nil = there are no watts.
local function parts_of(licenses)
   local others, watts = {}, nil
   for part in string.gmatch(licenses or "", "[^,;]+") do
      local name = string.match(part, "^%s*([^:=@%s]+)")
      if name == "watts" then
         watts = tonumber(string.match(part, "[:=](%d+)")) or 1
      else
         others[#others + 1] = part
      end
   end
   return others, watts
end

local function joined(others, watts)
   others[#others + 1] = "watts:" .. watts
   return table.concat(others, ",")
end

local function refused(text)
   slurm.log_user("wattfold: " .. text)
   return slurm.ERROR
end

local site_submit, site_modify = slurm_job_submit, slurm_job_modify

function slurm_job_submit(desc, partitions, uid)
   if site_submit ~= nil then
      local code = site_submit(desc, partitions, uid)
      if code ~= slurm.SUCCESS then
         return code
      end
   end
   local others, watts = parts_of(desc.licenses)
   if watts ~= nil and uid ~= 0 then
      return refused("the site sets the licence 'watts'; submit without it")
   end
   desc.licenses = joined(others, watts or watts_of(desc))
   return slurm.SUCCESS
end

function slurm_job_modify(desc, job, partitions, uid)
   if site_modify ~= nil then
      local code = site_modify(desc, job, partitions, uid)
      if code ~= slurm.SUCCESS then
         return code
      end
   end
   if uid == 0 then
      return slurm.SUCCESS
   end
   local _, held = parts_of(job.licenses)
   local sized = number(desc.min_cpus) or number(desc.num_tasks) or number(desc.min_nodes) or number(desc.cpus_per_task)
   if desc.licenses == nil and not sized then
      return slurm.SUCCESS
   end
   local others, watts = parts_of(desc.licenses or job.licenses)
   if desc.licenses ~= nil and watts ~= nil and watts ~= held then
      return refused("the site sets the licence 'watts'; it cannot be changed")
   end
   -- A smaller job keeps its licence, so that no order of two changes lowers it.
   held = math.max(held or 1, sized and watts_of(desc) or 1)
   desc.licenses = joined(others, held)
   return slurm.SUCCESS
end
