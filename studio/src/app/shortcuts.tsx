/** The dialog that shows the keys. It is opened by `?`. */
import { Kbd, Modal } from "@mantine/core";

import { useMay } from "@/api/session";
import { PLACES } from "./navigation";
import classes from "./shortcuts.module.css";

const GENERAL: [string[], string][] = [
  [["/"], "Search, and go anywhere"],
  [["Ctrl", "K"], "The same, also in a field"],
  [["?"], "These keys"],
  [["Esc"], "Close a dialog, leave a field"],
];

const TABLE: [string[], string][] = [
  [["↑"], "The row above; also k"],
  [["↓"], "The row below; also j"],
  [["Enter"], "Open the run"],
  [["x"], "Select the run"],
  [["Shift", "↓"], "Select several"],
  [["Ctrl", "A"], "Select all that are loaded"],
  [["f"], "Filter"],
];

const CHART: [string[], string][] = [
  [["←"], "The value before"],
  [["→"], "The value after"],
  [["+"], "Zoom in; also by dragging"],
  [["−"], "Zoom out"],
  [["0"], "Show everything"],
];

export function Shortcuts({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const may = useMay();
  const places = PLACES.filter(({ permission }) => may(permission)).map(({ key, label }): [string[], string] => [["g", key], label]);
  return (
    <Modal opened={opened} onClose={onClose} title="Keys" size="lg">
      <div className={classes.groups}>
        <div>
          <Keys title="Everywhere" keys={GENERAL} />
          <Keys title="Table of runs" keys={TABLE} />
          <Keys title="Charts" keys={CHART} />
        </div>
        <Keys title="Go to" keys={places} />
      </div>
    </Modal>
  );
}

function Keys({ title, keys }: { title: string; keys: [string[], string][] }) {
  return (
    <section className={classes.group}>
      <h3 className={classes.title}>{title}</h3>
      <dl className={classes.keys}>
        {keys.map(([pressed, text]) => (
          <div key={text}>
            <dt>
              {pressed.map((key) => (
                <Kbd key={key} size="xs">
                  {key}
                </Kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
