/** The logs of a run: which one, search, follow, and the lines. */
import { ActionIcon, Button, CopyButton, Menu, Select, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import {
  IconArrowDownToArc,
  IconChevronDown,
  IconChevronUp,
  IconCopy,
  IconDownload,
  IconSearch,
  IconTextWrap,
} from "@tabler/icons-react";
import { useRouterState } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import type { RunDetails } from "@/api/queries";
import { describe, Failure, Loading } from "@/components/states";
import { plural } from "@/lib/format";
import { isFinal } from "@/lib/states";

import { download, filePath } from "../queries";
import { useRunSearch } from "../search";
import { plain } from "./ansi";
import { LogDocument } from "./log-document";
import { firstLog, groupLogs, nameOfLog } from "./log-names";
import { logSource, type Matches, searchLines } from "./log-source";
import { LogView, NoLines, type Target } from "./log-view";
import classes from "./logs.module.css";
import { useDocument } from "./use-document";

const MOST_COPIED = 100_000;

type Props = { run: RunDetails };

export function LogsTab({ run }: Props) {
  const [search, setSearch] = useRunSearch();
  const path = search.file ?? firstLog(run);
  const groups = groupLogs(run.log_files.includes(path) ? run.log_files : [...run.log_files, path]);
  const choice = (
    <Select
      className={classes.choice}
      size="xs"
      aria-label="Log"
      data={groups.map(({ group, logs }) => ({ group, items: logs.map((log) => ({ value: log.path, label: log.label })) }))}
      value={path}
      onChange={(file) => file && setSearch({ file }, "")}
      searchable={run.log_files.length > 12}
      renderOption={({ option }) => (
        <div>
          <div>{option.label}</div>
          <div className={classes.path}>{option.value}</div>
        </div>
      )}
      comboboxProps={{ width: 320, position: "bottom-start" }}
    />
  );
  return <Log key={path} run={run} path={path} choice={choice} />;
}

/** Opens a log, and closes it when the page goes. */
function useLog(run: RunDetails, path: string): LogDocument {
  const isLive = !isFinal(run.state) && !path.startsWith("attempts/");
  const [wasLive] = useState(isLive);
  const document = useMemo(
    () => new LogDocument(logSource(run, path), wasLive),
    [run.workspace, run.id, path, wasLive], // eslint-disable-line react-hooks/exhaustive-deps
  );
  useEffect(() => {
    void document.open();
    return () => document.close();
  }, [document]);
  return document;
}

function Log({ run, path, choice }: Props & { path: string; choice: React.ReactNode }) {
  const document = useLog(run, path);
  useDocument(document);
  const hash = useRouterState({ select: (state) => state.location.hash });
  const [, setSearch] = useRunSearch();
  const chosen = Number(/^L(\d+)$/.exec(hash)?.[1] ?? 0) - 1;
  const [target, setTarget] = useState<Target>({ line: chosen, request: chosen >= 0 ? 1 : 0 });
  const [isFollowing, setFollowing] = useState(chosen < 0);
  const [isWrapped, setWrapped] = useWrap();
  const jump = (line: number) => {
    setFollowing(false);
    setTarget((before) => ({ line, request: before.request + 1 }));
  };
  const search = useLogSearch(run, path, document, jump);
  useEffect(() => {
    if (chosen >= 0 && chosen !== target.line) jump(chosen);
  }, [chosen]); // eslint-disable-line react-hooks/exhaustive-deps
  const [panel, height] = useRestOfPage();
  const isEmpty = document.isLoaded && document.lineCount === 0;
  return (
    <div className={classes.panel} ref={panel} style={{ height }}>
      <div className={classes.toolbar}>
        {choice}
        <SearchField {...search} />
        <div className={classes.actions}>
          <Tooltip label="Follow the end">
            <ActionIcon
              aria-label="Follow the end"
              aria-pressed={isFollowing}
              variant={isFollowing ? "light" : "subtle"}
              color={isFollowing ? "petrol" : "gray"}
              onClick={() => setFollowing(!isFollowing)}
            >
              <IconArrowDownToArc size={16} />
            </ActionIcon>
          </Tooltip>
          <Tooltip label="Wrap long lines">
            <ActionIcon
              aria-label="Wrap long lines"
              aria-pressed={isWrapped}
              variant={isWrapped ? "light" : "subtle"}
              color={isWrapped ? "petrol" : "gray"}
              onClick={() => setWrapped(!isWrapped)}
            >
              <IconTextWrap size={16} />
            </ActionIcon>
          </Tooltip>
          <CopyMenu document={document} chosen={target.line < 0 ? null : target.line} />
          <Tooltip label="Download this log">
            <ActionIcon aria-label="Download this log" onClick={() => void save(filePath(run, path))}>
              <IconDownload size={16} />
            </ActionIcon>
          </Tooltip>
        </div>
      </div>
      {document.error != null && <Failure error={document.error} retry={() => void document.open()} />}
      {!document.isLoaded && (
        <div className={classes.empty}>
          <Loading rows={12} height={13} />
        </div>
      )}
      {isEmpty && document.error == null && <NoLines>{emptyText(run)}</NoLines>}
      {document.isLoaded && !isEmpty && (
        <LogView
          {...{ document, isWrapped, isFollowing, target }}
          label={`Lines of ${nameOfLog(path).label}`}
          onFollow={setFollowing}
          search={search.active}
          onSelect={(line) => {
            setTarget(({ request }) => ({ line, request }));
            setSearch({}, `L${line + 1}`);
          }}
        />
      )}
      <Status document={document} path={path} />
    </div>
  );
}

const LEAST_HEIGHT = 360;
const LEAST_SHARE = 0.6;
const BELOW = 16;

/** The height from an element down to the lower edge of the window. */
function useRestOfPage(): [React.RefObject<HTMLDivElement | null>, number] {
  const element = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(LEAST_HEIGHT);
  useLayoutEffect(() => {
    const measure = () => {
      const top = (element.current?.getBoundingClientRect().top ?? 0) + window.scrollY;
      setHeight(Math.max(LEAST_HEIGHT, window.innerHeight * LEAST_SHARE, window.innerHeight - top - BELOW));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(window.document.body);
    window.addEventListener("resize", measure);
    return () => (observer.disconnect(), window.removeEventListener("resize", measure));
  }, []);
  return [element, height];
}

function emptyText(run: RunDetails): string {
  if (isFinal(run.state)) return "Nothing was printed.";
  return run.state === "Running" ? "Nothing has been printed yet." : `The run is ${run.state}: nothing has been printed yet.`;
}

function Status({ document, path }: { document: LogDocument; path: string }) {
  const gap = document.gaps.at(-1);
  return (
    <div className={classes.status}>
      <span>{document.isLoaded ? plural(document.lineCount, "line") : "Loading …"}</span>
      <span>{document.isComplete ? "Complete" : "Live"}</span>
      {document.attempt > 1 && <span>Attempt {document.attempt}</span>}
      <span>{path}</span>
      {gap && (
        <span className={classes.gap} role="status">
          The log reached its limit: {gap.length.toLocaleString("en-US")} bytes at line {(gap.line + 1).toLocaleString("en-US")} were not kept.
        </span>
      )}
    </div>
  );
}

const WRAP_KEY = "windlass.wrap";

/** Whether long lines are wrapped: at first on narrow screens only. */
function useWrap(): [boolean, (is: boolean) => void] {
  const [isWrapped, setWrapped] = useState(() => {
    const kept = localStorage.getItem(WRAP_KEY);
    return kept === null ? window.innerWidth < 768 : kept === "1";
  });
  return [isWrapped, (is) => (setWrapped(is), localStorage.setItem(WRAP_KEY, is ? "1" : "0"))];
}

function CopyMenu({ document, chosen }: { document: LogDocument; chosen: number | null }) {
  const [isBusy, setBusy] = useState(false);
  async function copyAll() {
    setBusy(true);
    try {
      const first = Math.max(0, document.lineCount - MOST_COPIED);
      const lines = await document.read(first, document.lineCount - 1);
      await copyText(lines.map(plain).join("\n"));
      notifications.show({ message: first ? `The last ${plural(lines.length, "line")} were copied.` : `${plural(lines.length, "line")} copied.` });
    } catch (error) {
      notifications.show({ color: "red", ...messageOf(error) });
    } finally {
      setBusy(false);
    }
  }
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Tooltip label="Copy">
          <ActionIcon aria-label="Copy" loading={isBusy}>
            <IconCopy size={16} />
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => void copyAll()}>Copy the log</Menu.Item>
        {chosen !== null && (
          <CopyButton value={plain(document.line(chosen) ?? "")}>
            {({ copy }) => <Menu.Item onClick={copy}>Copy line {chosen + 1}</Menu.Item>}
          </CopyButton>
        )}
        {chosen !== null && (
          <CopyButton value={location.href.replace(/#.*$/, "") + `#L${chosen + 1}`}>
            {({ copy }) => <Menu.Item onClick={copy}>Copy a link to line {chosen + 1}</Menu.Item>}
          </CopyButton>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

/** Puts a text on the clipboard, also where the page came by plain HTTP. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = window.document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  window.document.body.append(area);
  area.select();
  window.document.execCommand("copy");
  area.remove();
}

const messageOf = (error: unknown) => {
  const { message, hint } = describe(error);
  return { title: message, message: hint };
};

async function save(path: string): Promise<void> {
  try {
    await download(path);
  } catch (error) {
    notifications.show({ color: "red", ...messageOf(error) });
  }
}

type Search = {
  text: string;
  setText: (text: string) => void;
  /** The text that is marked. */
  active: string;
  matches: Matches | null;
  index: number;
  go: (step: 1 | -1) => void;
  error: unknown;
};

const NONE: Matches = { lines: [], isComplete: true };
const SEARCH_PAUSE = 200;

/** Searches the whole log by the server, and again in what is new when it has grown. */
function useLogSearch(run: RunDetails, path: string, document: LogDocument, show: (line: number) => void): Search {
  const [text, setText] = useState("");
  const [active] = useDebouncedValue(text.trim() && text, SEARCH_PAUSE);
  const [matches, setMatches] = useState<Matches | null>(null);
  const [index, setIndex] = useState(-1);
  const [error, setError] = useState<unknown>(null);
  const [growth] = useDebouncedValue(document.lineCount, 1000);
  const found = useRef({ text: "", lines: [] as number[], until: -1, isShown: false });
  const now = useRef(show);
  now.current = show;

  useEffect(() => {
    setError(null);
    if (!active) {
      found.current = { text: "", lines: [], until: -1, isShown: false };
      setMatches(null);
      setIndex(-1);
      return;
    }
    const stop = new AbortController();
    const isNew = found.current.text !== active;
    if (isNew) found.current = { text: active, lines: [], until: -1, isShown: false };
    const before = found.current.lines;
    const onFound = ({ lines, isComplete }: Matches) => {
      found.current.lines = [...before, ...lines];
      if (isComplete) found.current.until = growth - 2; // the last line may go on
      setMatches({ lines: found.current.lines, isComplete });
      if (!found.current.isShown && lines.length) {
        found.current.isShown = true;
        setIndex(0);
        now.current(lines[0]!);
      }
    };
    if (isNew) {
      setIndex(-1);
      setMatches(null);
    }
    const after = Math.max(found.current.until, before.at(-1) ?? -1);
    searchLines(run, path, active, after, onFound, stop.signal).catch((problem) => !stop.signal.aborted && setError(problem));
    return () => stop.abort();
  }, [active, growth, run.workspace, run.id, path]); // eslint-disable-line react-hooks/exhaustive-deps

  function go(step: 1 | -1) {
    const { lines } = matches ?? NONE;
    if (!lines.length) return;
    const next = (index + step + lines.length) % lines.length;
    setIndex(next);
    show(lines[next]!);
  }
  return { text, setText, active, matches, index, go, error };
}

function SearchField({ text, setText, active, matches, index, go, error }: Search) {
  const field = useRef<HTMLInputElement>(null);
  function onKey(event: KeyboardEvent) {
    if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") setText("");
    else return;
    event.preventDefault();
  }
  const count = matches?.lines.length ?? 0;
  const total = matches && !matches.isComplete ? `${count}+` : String(count);
  const said = error ? "Search failed" : !active ? "" : !matches ? "Searching …" : count ? `${index + 1} of ${total}` : "No match";
  return (
    <>
      <TextInput
        ref={field}
        className={classes.search}
        size="xs"
        type="search"
        aria-label="Search in the log"
        placeholder="Search in the log"
        leftSection={<IconSearch size={14} />}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKey}
      />
      <Button.Group>
        <ActionIcon aria-label="Previous match" disabled={!count} onClick={() => go(-1)}>
          <IconChevronUp size={16} />
        </ActionIcon>
        <ActionIcon aria-label="Next match" disabled={!count} onClick={() => go(1)}>
          <IconChevronDown size={16} />
        </ActionIcon>
      </Button.Group>
      <span className={classes.count} role="status">
        {said}
      </span>
    </>
  );
}
