// The page of a job. Text from nodes and workers is only ever set as textContent, never parsed as HTML.
'use strict';

const MOST_ROWS = 100;  // per table, until the user asks for all
const LEVELS = ['bad', 'wait', 'good'];
const OUTLIER = 1.3;
const RETRY_MS = 1000;

let session = kept();     // {role, token}, from the log-in
let stream = null;        // AbortController of the request for states
let state = null;         // the newest state
let chosen = null;        // name of the job shown
let allWorkers = false, allNodes = false;
let log = null;           // {job, rank, attempt, out, err, timer}
let charts = null;
let charted = null;       // {job, generation} of the curves shown

// ---- the session: kept for this tab and this origin, also over a reload. A browser that blocks storage throws.

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem('session'));
  } catch {
    return null;
  }
}

function keep(found) {
  session = found;
  try {
    if (found) sessionStorage.setItem('session', JSON.stringify(found));
    else sessionStorage.removeItem('session');
  } catch {
    // The session ends with a reload.
  }
}

// ---- calls

// Requests by the session's token. No cookie is used: it would be sent to every port of this host.
function ask(path, options = {}) {
  const headers = {...options.headers, ...(session ? {Authorization: `Bearer ${session.token}`} : {})};
  return fetch(path, {credentials: 'omit', cache: 'no-store', ...options, headers});
}

async function call(path, options = {}) {
  const used = session;
  const answer = await ask(path, options);
  const text = await answer.text();
  let json = {};
  try {
    json = text ? JSON.parse(text) : {};
  } catch {
    json = {error: text};
  }
  if (answer.status === 401 && session === used) showLogin();
  if (!answer.ok) throw new Error(json.error || `${answer.status} ${answer.statusText}`);
  return json;
}

function say(text) {
  const said = byId('said');
  said.textContent = text;
  said.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { said.hidden = true; }, 9000);
}

function confirmed(text, yes) {
  const dialog = byId('confirm');
  setText(byId('confirm-text'), text);
  setText(byId('confirm-yes'), yes);
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === 'yes');
    dialog.returnValue = '';
    dialog.showModal();
    byId('confirm-no').focus();
  });
}

async function control(name, body, text, yes) {
  if (!await confirmed(text, yes)) return;
  try {
    const done = await call(`/api/${name}`, {
      method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)});
    say(done.done);
  } catch (error) {
    say(error.message);
  }
}

// ---- log in and out

function showLogin() {
  if (stream) stream.abort();
  stream = null;
  keep(null);
  closeLog();
  byId('content').hidden = true;
  byId('logout').hidden = true;
  setText(byId('role'), '');
  if (!byId('login').hidden) return;
  byId('login').hidden = false;
  byId('password').focus();
}

function begin() {
  if (!session) return showLogin();
  byId('login').hidden = true;
  byId('content').hidden = false;
  byId('logout').hidden = false;
  setText(byId('role'), `Logged in as ${session.role}`);
  byId('job-buttons').hidden = session.role !== 'operator';
  listen();
}

// Shows states until the log-out. An EventSource could not send the token.
async function listen() {
  if (stream) stream.abort();
  const own = stream = new AbortController();
  while (stream === own) {
    try {
      const answer = await ask('/api/live', {signal: own.signal});
      if (stream !== own) return;
      if (answer.status === 401) return showLogin();  // also after the end of a session, which ends its stream
      if (answer.ok) await readEvents(answer.body.pipeThrough(new TextDecoderStream()).getReader(), own);
    } catch {
      // The connection has failed, or `own` has ended it.
    }
    if (stream !== own) return;
    setText(byId('service'), 'the page does not answer; trying again');
    await new Promise((resolve) => { setTimeout(resolve, RETRY_MS); });
  }
}

// Reads server-sent events to their end. Each is "event: state", a line of data and an empty line.
async function readEvents(reader, own) {
  let text = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done || stream !== own) return;
    text += value;
    if (!value.includes('\n')) continue;
    const events = text.split('\n\n');
    text = events.pop();
    if (!events.length) continue;
    const begun = performance.now();
    try {
      state = JSON.parse(events.pop().replace(/^event: state\ndata: /, ''));
      show(begun);
    } catch (error) {
      reportError(error);
    }
  }
}

byId('login-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  setText(byId('login-error'), '');
  try {
    keep(await call('/login', {method: 'POST', body: new URLSearchParams({password: byId('password').value})}));
    byId('password').value = '';
    begin();
  } catch (error) {
    setText(byId('login-error'), error.message);
    byId('password').select();
  }
});

byId('logout').addEventListener('click', async () => {
  await call('/logout', {method: 'POST'}).catch(() => {});
  showLogin();
});

// ---- views

// `begun`: when the page began to process the message.
function show(begun = performance.now()) {
  setText(byId('service'), state.answers ? `service up for ${seconds(state.uptime_s)}` : state.why);
  if (!state.answers) return;
  const jobs = state.jobs;
  if (!jobs.some((job) => job.job === chosen)) chosen = jobs.length ? jobs[0].job : null;
  showJobs(jobs);
  byId('empty').hidden = jobs.length > 0;
  byId('job').hidden = jobs.length === 0;
  const job = jobs.find((one) => one.job === chosen);
  if (job) showJob(job);
  document.body.getBoundingClientRect();  // forces the layout, so that it is measured too
  document.body.dataset.took = (performance.now() - begun).toFixed(1);
  document.body.dataset.shown = String(Number(document.body.dataset.shown || 0) + 1);
}

function showJobs(jobs) {
  const nav = byId('jobs');
  nav.hidden = jobs.length < 2;
  if (nav.dataset.jobs !== JSON.stringify([chosen, jobs.map((job) => job.job)])) {
    nav.dataset.jobs = JSON.stringify([chosen, jobs.map((job) => job.job)]);
    nav.replaceChildren(...jobs.map((job) => {
      const made = button(job.job, () => { chosen = job.job; closeLog(); show(); });
      made.setAttribute('aria-current', String(job.job === chosen));
      return made;
    }));
  }
}

function showJob(job) {
  const name = job.run ?? (job.job === 'none' ? 'Job' : `Job ${job.job}`);
  setText(byId('job-title'), name);
  document.title = [percentDone(job), job.phase, job.run ?? job.job, 'mtrun'].filter(Boolean).join(' \u00b7 ');
  const ended = job.ended_for_s === null ? '' : `Ended ${seconds(job.ended_for_s)} ago. `;
  setText(byId('change'), ended + (job.last_change ? `Last change: ${job.last_change}` : ''));
  showRun(job);
  showTiles(job);
  showCharts(job);
  showNodes(job);
  showWorkers(job);
  showStragglers(job);
  showEvents(job);
}

// ---- how far the run is

const partDone = (job) => job.total_steps === null || job.step === null ? null : Math.min(1, job.step / job.total_steps);
const percentDone = (job) => partDone(job) === null ? '' : `${Math.floor(100 * partDone(job))} %`;

function showRun(job) {
  const part = partDone(job);
  byId('run').hidden = part === null && job.epoch === null;
  byId('run-bar').hidden = part === null;
  if (part !== null) byId('run-bar').value = part;
  const words = [];
  if (job.epoch !== null) words.push(`Epoch ${number(job.epoch)}${job.epochs === null ? '' : ` of ${number(job.epochs)}`}`);
  if (job.step !== null)
    words.push(`step ${number(job.step)}${job.total_steps === null ? '' : ` of ${number(job.total_steps)}`}`);
  if (part !== null) words.push(percentDone(job));
  if (job.left_s !== null && job.phase !== 'ended') words.push(`about ${roughly(job.left_s)} left`);
  setText(byId('run-text'), words.map((word) => word.replaceAll(' ', '\u00a0')).join(', '));
  const figures = [['Loss', job.loss === null ? null : fourDigits(job.loss)],
    ['Accuracy', job.accuracy === null ? null : `${(100 * job.accuracy).toFixed(1)} %`],
    ['Learning rate', job.learning_rate === null ? null : fourDigits(job.learning_rate)],
    ['Samples/s', job.samples_per_s === null ? null : number(job.samples_per_s, 1)]];
  showFigures(byId('figures'), figures.filter(([, value]) => value !== null));
}

function showFigures(list, figures) {
  while (list.children.length > figures.length) list.lastElementChild.remove();
  while (list.children.length < figures.length) {
    const figure = document.createElement('div');
    figure.append(document.createElement('dt'), document.createElement('dd'));
    list.append(figure);
  }
  figures.forEach(([name, value], i) => {
    setText(list.children[i].children[0], name);
    setText(list.children[i].children[1], value);
  });
}

function showTiles(job) {
  const nodes = job.nodes.filter((node) => node.first_rank !== null).length;
  const tiles = [
    ['Phase', job.phase], ['For', seconds(job.since_s)], ['Generation', number(job.generation)],
    ['Nodes', `${nodes} of ${job.min_nodes === job.max_nodes ? '' : `${job.min_nodes}\u2013`}${job.max_nodes}`],
    ['Workers', number(job.world_size)], ['Step', number(job.step)], ['Step time', seconds(job.step_s)],
    ['Restarts', `${job.restarts} of ${job.max_restarts}`]];
  if (job.run !== null && job.job !== 'none') tiles.unshift(['Job', job.job]);
  showFigures(byId('tiles'), tiles);
}

function showCharts(job) {
  if (!charts) {
    const parent = byId('charts');
    charts = {
      loss: new Chart(parent, 'Loss', fourDigits, {fromZero: false}),
      right: new Chart(parent, 'Accuracy', (v) => `${fourDigits(100 * v)} %`, {fromZero: false}),
      pace: new Chart(parent, 'Learning rate', fourDigits),
      rate: new Chart(parent, 'Samples/s', (v) => number(v, 1)), step: new Chart(parent, 'Step time', seconds),
      cpus: new Chart(parent, 'Busy CPUs of all nodes', busy), world: new Chart(parent, 'Workers', (v) => number(v))};
  }
  const now = Date.now();
  if (!charted || charted.job !== job.job) Object.values(charts).forEach((chart) => chart.clear());
  if (charted && charted.job === job.job && charted.generation !== job.generation)
    Object.values(charts).forEach((chart) => chart.mark(now));
  charted = {job: job.job, generation: job.generation};
  const known = job.nodes.map((node) => node.cpus_busy).filter((value) => value !== null);
  charts.step.add(now, job.step_s ?? NaN);
  charts.rate.add(now, job.samples_per_s ?? NaN);
  charts.loss.add(now, job.loss ?? NaN);
  charts.right.add(now, job.accuracy ?? NaN);
  charts.pace.add(now, job.learning_rate ?? NaN);
  charts.cpus.add(now, known.length ? known.reduce((a, b) => a + b) : NaN);
  charts.world.add(now, job.world_size);
  Object.values(charts).forEach((chart) => chart.draw(now));
  // Hidden if the program does not report them.
  for (const chart of [charts.loss, charts.right, charts.pace]) chart.figure.hidden = !chart.known();
}

function nodeButtons(cell, job, node) {
  // If a forming job waits for a lost node, on which its old generation may still run, the operator can evict it.
  const waited = 'gone_for_s' in node ? node.level === 'bad' && job.phase === 'forming' : node.level === 'bad';
  const wanted = session.role !== 'operator' || job.phase === 'ended' ? '' :
      waited ? 'evict' : 'gone_for_s' in node ? '' : 'drain';
  if (cell.dataset.wanted === wanted) return;
  cell.dataset.wanted = wanted;
  const name = node.host;
  const drain = () => control('drain', {job: job.job, node: node.id},
      `Node ${name} leaves the job after its step. The others continue if enough are left. Drain it?`, 'Drain');
  const evict = () => control('evict', {job: job.job, node: node.id},
      `Only evict node ${name} if it never comes back: if its workers still run, two generations may commit.`,
      'Evict');
  cell.replaceChildren(...(wanted === 'drain' ? [button('Drain', drain)] :
      wanted === 'evict' ? [button('Evict', evict, true)] : []));
}

function showNodes(job) {
  const bad = job.nodes.filter((node) => node.level === 'bad').length;
  setText(byId('nodes-title'), `Nodes (${job.nodes.length}${bad ? `, ${bad} bad` : ''})`);
  let nodes = job.nodes;
  if (more('more-nodes', nodes.length, allNodes)) {
    // Nodes that need attention come first.
    nodes = nodes.slice().sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level)).slice(0, MOST_ROWS);
  }
  rows(byId('nodes').tBodies[0], nodes, (node) => node.id, (row) => {
    cells(row, 10);
    const badge = document.createElement('span');
    badge.className = 'state';
    row.parts[2].append(badge);
    row.parts[8].className = 'note';
  }, (row, node) => {
    if (row.className !== node.level) row.className = node.level;
    const at = row.parts;
    setText(at[0], node.node_rank === null ? '-' : String(node.node_rank));
    setText(at[1], node.host);
    at[1].title = `${node.id} at ${node.address}`;
    setText(at[2].firstChild, node.state);
    setText(at[3], ranksText(node));
    setText(at[4], node.machine_cpus ? `${busy(node.cpus_busy)} of ${node.machine_cpus}` : '-');
    setText(at[5], node.memory_total_bytes ?
        `${bytes(node.memory_bytes)} of ${bytes(node.memory_total_bytes)}` : '-');
    setText(at[6], gpuText(node.gpus));
    setText(at[7], seconds('gone_for_s' in node ? node.gone_for_s : node.silent_s));
    setText(at[8], node.note);
    nodeButtons(at[9], job, node);
  });
}

function showWorkers(job) {
  let workers = [];
  for (const node of job.nodes) {
    for (const worker of node.ranks) workers.push({...worker, host: node.host, node: node.id});
  }
  workers.sort((a, b) => (a.rank ?? 1e9) - (b.rank ?? 1e9));
  setText(byId('workers-title'), `Workers (${workers.length})`);
  if (more('more-workers', workers.length, allWorkers)) workers = workers.slice(0, MOST_ROWS);
  rows(byId('workers').tBodies[0], workers, (worker) => `${worker.node}/${worker.local_rank}`, (row) => {
    cells(row, 11);
    const open = button('Log', () => openLog(chosen, Number(row.dataset.rank)));
    row.parts[10].append(open);
  }, (row, worker) => {
    row.dataset.rank = String(worker.rank);
    row.parts[10].firstChild.hidden = worker.rank === null;
    const texts = [worker.rank === null ? '-' : String(worker.rank), worker.host, number(worker.step),
      seconds(worker.step_s), seconds(worker.data_wait_s), seconds(worker.exchange_wait_s),
      seconds(worker.quiet_s), busy(worker.cpus_busy), bytes(worker.memory_bytes), String(worker.pid)];
    texts.forEach((text, i) => setText(row.parts[i], text));
  });
}

// Returns whether a table of `count` rows is cut; its button then shows the rest.
function more(id, count, all) {
  const cut = !all && count > MOST_ROWS;
  byId(id).hidden = !cut;
  if (cut) setText(byId(id), `Show all ${count}`);
  return cut;
}

byId('more-nodes').addEventListener('click', () => { allNodes = true; show(); });
byId('more-workers').addEventListener('click', () => { allWorkers = true; show(); });

function showStragglers(job) {
  const hosts = new Map(job.nodes.map((node) => [node.id, node.host]));
  byId('slow').replaceChildren(...(job.stragglers.length ? job.stragglers.map((slow) => {
    const item = document.createElement('li');
    const name = document.createElement('span');
    const value = document.createElement('span');
    name.textContent = `rank ${slow.rank} on ${hosts.get(slow.node) || slow.node}`;
    value.textContent = `${seconds(slow.own_step_s)} (${slow.times_median === null ? '-' :
        slow.times_median.toFixed(2)} x median)`;
    if (slow.times_median >= OUTLIER) item.className = 'outlier';
    item.append(name, value);
    return item;
  }) : [Object.assign(document.createElement('li'), {textContent: 'no worker reports step times'})]));
}

function showEvents(job) {
  const list = byId('events');
  const newest = job.events.length ? job.events[job.events.length - 1].number : 0;
  if (list.dataset.newest === `${job.job} ${newest}`) return;
  list.dataset.newest = `${job.job} ${newest}`;
  list.replaceChildren(...job.events.slice().reverse().map((event) => {
    const item = document.createElement('li');
    const time = document.createElement('time');
    const text = document.createElement('span');
    const at = new Date(event.time_ms);
    time.dateTime = at.toISOString();
    time.textContent = at.toLocaleTimeString();
    text.textContent = event.text;
    item.append(time, text);
    return item;
  }));
}

// ---- log of one worker

function closeLog() {
  if (log) clearTimeout(log.timer);
  log = null;
  byId('log-section').hidden = true;
}

function openLog(job, rank) {
  closeLog();
  log = {job, rank, attempt: '', out: -1, err: -1, timer: 0};
  setText(byId('log-title'), `Log of rank ${rank}`);
  byId('log').replaceChildren();
  byId('log-section').hidden = false;
  byId('log-section').scrollIntoView({block: 'nearest'});
  byId('log').focus({preventScroll: true});
  readLog(log);
}

async function readLog(reading) {
  if (reading.asking) return;
  reading.asking = true;
  clearTimeout(reading.timer);
  const {job, rank, attempt, out, err} = reading;
  const view = byId('log');
  let pause = 1000;
  try {
    const part = await call(`/api/log?${new URLSearchParams({job, rank, attempt, out, err})}`);
    if (log !== reading) return;
    const fresh = part.out + part.err;
    const atEnd = view.scrollTop + view.clientHeight >= view.scrollHeight - 8;
    if (fresh) view.append(document.createTextNode(fresh));
    while (view.childNodes.length > 200) view.firstChild.remove();
    if (fresh && atEnd) view.scrollTop = view.scrollHeight;
    Object.assign(reading, {attempt: part.attempt, out: part.out_end, err: part.err_end});
    setText(byId('log-title'), `Log of rank ${rank}`);
    if (part.more) pause = 0;
  } catch (error) {
    if (log !== reading) return;
    setText(byId('log-title'), `Log of rank ${rank}: ${error.message}`);
  } finally {
    reading.asking = false;
  }
  if (byId('log-follow').checked) reading.timer = setTimeout(() => readLog(reading), pause);
}

byId('log-close').addEventListener('click', closeLog);
byId('log-follow').addEventListener('change', (event) => {
  if (event.target.checked && log) readLog(log);
});

// ---- buttons of the job

byId('confirm-no').addEventListener('click', () => byId('confirm').close('no'));
byId('confirm-yes').addEventListener('click', () => byId('confirm').close('yes'));
byId('stop-saved').addEventListener('click', () => control('stop', {job: chosen, checkpoint: true},
    `All nodes of job ${chosen} leave after a step; trainers save a checkpoint. Stop it?`, 'Stop with a checkpoint'));
byId('stop').addEventListener('click', () => control('stop', {job: chosen},
    `Job ${chosen} ends on all its nodes now; what is behind the last checkpoint is lost. Stop it?`, 'Stop'));
byId('stacks').addEventListener('click', () => control('stacks', {job: chosen},
    `Every node of job ${chosen} writes the stacks of its workers into its log folder. They pause for a moment.`,
    'Dump stacks'));

begin();
