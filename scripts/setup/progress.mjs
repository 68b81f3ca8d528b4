const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/**
 * Shows a slow step on standard error: a spinner with the elapsed time on a terminal, two plain lines elsewhere.
 * `work` gets a function that tells what the step is doing right now.
 */
export async function step(title, work) {
  const began = Date.now();
  const seconds = () => `${((Date.now() - began) / 1000).toFixed(1)} s`;
  const show = process.stderr.isTTY ? createSpinner(title, seconds) : createPlain(title);
  try {
    const result = await work(show.detail);
    show.end(`✓ ${title} (${seconds()})`);
    return result;
  } catch (error) {
    show.end(`✗ ${title} (${seconds()})`);
    throw error;
  }
}

function createPlain(title) {
  process.stderr.write(`… ${title}\n`);
  return { detail: () => {}, end: (line) => process.stderr.write(`${line}\n`) };
}

function createSpinner(title, seconds) {
  let frame = 0;
  let note = '';
  const draw = () => {
    frame = (frame + 1) % frames.length;
    const line = `${frames[frame]} ${title} ${seconds()}${note ? ` · ${note}` : ''}`;
    process.stderr.write(`\r\x1b[2K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
  };
  const timer = setInterval(draw, 120);
  timer.unref();
  draw();
  return {
    detail: (text) => {
      // Programs print what they like: keep control characters off the terminal.
      note = text.replace(/[^\x20-\x7e]/g, ' ');
    },
    end: (line) => {
      clearInterval(timer);
      process.stderr.write(`\r\x1b[2K${line}\n`);
    },
  };
}
