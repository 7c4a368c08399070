// The page: header, overview of the workloads, the chosen workload, and where the runs took place.

let open = [];  // what is shown of workloads, to be closed

function warningsBox(title, texts) {
  if (texts.length === 0) return null;
  return make("section", { class: "warnings", "aria-label": title }, make("strong", {}, title),
    make("ul", {}, texts.map(text => make("li", {}, text))));
}
const factsList = facts => make("dl", { class: "facts" }, facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

function workloadSection(workload, index) {
  const context = contextOf(workload, index);
  context.targetListeners = [];
  const summary = summarySection(context);
  const made = [curvesFigure(context), targetFigure(context), workersFigure(context), waitsFigure(context),
    batchesFigure(context), ...histogramFigures(context)].filter(frame => frame !== null);
  const toolbar = made.length > 0 ? new Toolbar("the charts", made, context.selection, () => context.items) : null;
  open.push(...made, ...(toolbar ? [toolbar] : []));
  const links = [["summary", "Summary"], ...made.map(frame => [frame.spec.name.slice(context.prefix.length + 1), frame.spec.title]),
    ...(context.groups.some(group => group.survival) ? [["losses", "Lost workers"]] : []),
    ["settings", "Configuration"], ["runs", "Runs"]];
  return make("section", { id: context.prefix, "aria-label": workload.name },
    make("h2", {}, data.workloads.length > 1 ? `Workload ${index + 1}: ${workload.name}` : workload.name),
    workload.about === workload.name ? null : make("p", { class: "muted" }, workload.about),
    make("nav", { "aria-label": "Sections" }, links.map(([name, text]) => make("a", { href: `#${context.prefix}-${name}` }, text))),
    make("details", {}, make("summary", {}, "Data, machine and stragglers"), factsList(workload.facts)),
    warningsBox("Warnings", workload.warnings), summary,
    make("h3", {}, "Charts"), make("div", {}, toolbar ? toolbar.element : null, made.map(frame => frame.element)), lossesSection(context), settingsSection(context), runsSection(context));
}

const place = make("div");
function show(which) {
  for (const each of open) each.close();
  open = [];
  const chosen = which === "all" ? data.workloads.map((_, i) => i) : [Number(which)];
  place.replaceChildren(...chosen.map(i => workloadSection(data.workloads[i], i)));
}

function profileFigure() {
  const { problems, solvers, end } = data.profile;
  if (problems.length < 2) return null;
  const items = solvers.map(solver => ({ key: solver.label, name: solver.label, style: styleOfLabel(solver.label) }));
  const selection = new Selection(items.map(item => item.key), items.length > MOST_SHOWN + 2 ? MOST_SHOWN : items.length);
  const ratiosOf = solver => solver.ratios.filter(Number.isFinite).sort((a, b) => a - b);
  const most = Math.max(end, ...solvers.flatMap(ratiosOf)) * 1.05;
  const pointsOfSolver = solver => {
    const ratios = ratiosOf(solver), share = count => count / solver.problems.length;
    const steps = [...new Set([1, ...ratios, most])];
    return steps.map(x => ({ x, y: share(ratios.filter(ratio => ratio <= x).length) }));
  };
  const whole = solvers.every(solver => solver.problems.length === problems.length);
  return new Frame({
    name: "profile", title: "Performance profile", selection, items: () => items,
    note: "Share of the problems on which a method's median time to the target is at most so many times that of the best one (Dolan and Moré 2002). " +
      `${problems.length} problems: a workload with a target that somebody reached.` +
      (whole ? "" : " A method that did not run on all of them is judged by those that it ran on."),
    draw: (width, theme) => drawLines({
      series: solvers.filter(solver => selection.has(solver.label)).map(solver =>
        ({ key: solver.label, name: solver.label, style: styleOfLabel(solver.label), points: pointsOfSolver(solver), step: true })),
      x: { title: "time over the best time", kind: "plain", log: true }, label: "Performance profile",
      y: { title: "share of the problems", kind: "share", low: 0, high: 1 },
    }, width, theme),
    table: () => ({
      columns: [{ name: "group" }, { name: "problems", number: true }, { name: "reached", number: true },
        { name: `area up to ${end}`, number: true, title: "Area below the profile from 1 on, as a share of the largest possible" },
        ...problems.map(problem => ({ name: `${problem.workload + 1}: ${problem.target}`, number: true }))],
      rows: solvers.filter(solver => selection.has(solver.label)).map(solver => [solver.label, solver.problems.length, solver.solved,
        { text: fixed(solver.area, 4), sort: solver.area }, ...problems.map((_, i) => {
          const at = solver.problems.indexOf(i);
          if (at < 0) return null;
          const ratio = solver.ratios[at] ?? Infinity;
          return { text: short(ratio), sort: ratio };
        })]),
    }),
  });
}
function overview(select) {
  if (data.workloads.length < 2) return null;
  const columns = [{ name: "workload" }, { name: "runs", number: true }, { name: "groups", number: true },
    { name: "first target" }, { name: "fastest" }, { name: "warnings", number: true }, { name: "charts" }];
  const rows = data.workloads.map((workload, i) => {
    const best = workload.groups.find(group => group.place === 0);
    const go = () => make("button", { type: "button", "aria-label": `Show workload ${i + 1}`, onclick: () => {
      select.value = String(i);
      show(String(i));
      document.getElementById(`w${i}`).scrollIntoView();
    } }, "Show");
    const about = workload.about === workload.name ? null : workload.about;
    return [{ text: `${i + 1}: ${workload.name}`, sort: i, range: about }, workload.runs.length, workload.groups.length, workload.targets[0] ?? null,
      workload.targets.length > 0 && Number.isFinite(interval(best.targets[0], "time_s").median) ? best.label : null,
      workload.warnings.length, { text: "", mark: go }];
  });
  const profile = profileFigure();
  return make("section", { class: "overview", "aria-label": "Overview" }, make("h2", { id: "overview" }, "Overview"),
    tableOf({ columns, rows, label: "Workloads", whole: rows.length < 40 }),
    profile ? new Toolbar("the performance profile", [profile], profile.spec.selection, profile.spec.items).element : null,
    profile ? profile.element : null);
}

function themeButton() {
  const names = ["auto", "light", "dark"];
  let now = 0;
  const button = make("button", { type: "button", id: "theme", onclick: () => {
    now = (now + 1) % names.length;
    if (now === 0) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = names[now];
    button.textContent = `Colours: ${names[now]}`;
    redrawAll();
  } }, "Colours: auto");
  return button;
}
function environmentSection() {
  const blocks = data.environments.map(({ runs, rows }) => [
    data.environments.length > 1 ? make("h3", {}, `${runs} run${runs === 1 ? "" : "s"}`) : null, factsList(rows)]);
  const body = data.environments.length <= 3 ? blocks.flat()
    : make("details", {}, make("summary", {}, `${data.environments.length} environments`), blocks.flat());
  return make("section", { "aria-label": "Environment" }, make("h2", { id: "environment" }, "Environment"), body);
}

// Whose time it is: the environment below names the host, which computed the simulation.
function clockText() {
  const machines = [...new Set(data.workloads.map(workload => workload.simulated).filter(machine => machine))];
  if (machines.length === 0) return null;
  const named = machines.length > 3 ? `${machines.length} machines (see the workloads' facts)` : machines.join("; ");
  const others = data.workloads.every(workload => workload.simulated) ? "" : " Other workloads ran in real time.";
  return make("p", { class: "muted" }, `Simulated: times are those of ${named}.${others}`);
}

function start() {
  const names = data.workloads.map((workload, i) => [String(i), `${i + 1}: ${workload.name}`]);
  const label = choice("Workload", [...names, ["all", "all, one after the other"]], "0", show);
  const single = data.workloads.length === 1;
  fill(document.getElementById("header"), {}, [make("h1", {}, data.title), data.about ? make("p", {}, data.about) : null,
    make("p", { class: "muted" }, `${data.runs} runs, ${data.workloads.length} workload${single ? "" : "s"}.`), clockText()]);
  document.getElementById("content").replaceChildren(
    make("div", { class: "bar" }, single ? make("a", { href: "#environment" }, "Environment") : label, themeButton()),
    warningsBox("Files that are left out", data.notes) ?? "", overview(label.lastChild) ?? "", place, environmentSection());
  document.getElementById("footer").append(make("p", {}, `Made by ${data.program}. This page is one file: it needs no server and asks the network for nothing.`));
  show("0");
}
start();
