/** The command palette: runs by name or id, targets, experiments, pages, and what can be done anywhere. */
import { Group, Kbd, Text, useMantineColorScheme } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight } from "@mantine/spotlight";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { IconFlask, IconKeyboard, IconPlayerPlay, IconPlus, IconSearch, IconSend, IconServer } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { experiments, someRuns, targets } from "@/api/queries";
import { useMay } from "@/api/session";
import { StateBadge } from "@/components/state-badge";
import { PLACES } from "./navigation";
import { THEMES } from "./themes";

type Action = { label: string; icon: typeof IconSend; run: () => void; description?: string; right?: ReactNode };

const MOST = 5; // of each kind

export function Palette({ workspace, onKeys }: { workspace: string; onKeys: () => void }) {
  const [query, setQuery] = useState("");
  const text = query.trim().toLowerCase();
  const [search] = useDebouncedValue(query.trim(), 150);
  const isSearching = search.length > 1;
  const runs = useQuery({ ...someRuns(workspace, { search }, 6), enabled: isSearching, placeholderData: keepPreviousData });
  const actions = useActions(workspace, onKeys, text);
  const found = text.length > 1 && isSearching ? (runs.data?.runs ?? []) : [];
  const { run: open, groups } = actions;
  return (
    <Spotlight.Root
      query={query}
      onQueryChange={setQuery}
      shortcut={["mod + K"]}
      scrollable
      maxHeight={440}
      zIndex={400}
      clearQueryOnClose
      centered={false}
      yOffset="12vh"
      overlayProps={{ blur: 0, backgroundOpacity: 0.35 }}
      attributes={{ content: { "aria-label": "Search" } }}
    >
      <Spotlight.Search placeholder="Run, target, experiment, page or action" aria-label="Search" leftSection={<IconSearch size={17} stroke={1.6} />} />
      <Spotlight.ActionsList>
        {found.length > 0 && (
          <Spotlight.ActionsGroup label="Runs">
            {found.map((run) => (
              <Spotlight.Action key={run.id} onClick={() => open(`/runs/${encodeURIComponent(run.id)}`)}>
                <Group gap="sm" wrap="nowrap" w="100%">
                  <IconPlayerPlay size={15} />
                  <Text size="sm" truncate>
                    {run.name || run.id}
                  </Text>
                  <Text size="xs" c="dimmed" truncate>
                    {run.experiment}
                  </Text>
                  <span style={{ marginLeft: "auto" }}>
                    <StateBadge state={run.state} />
                  </span>
                </Group>
              </Spotlight.Action>
            ))}
          </Spotlight.ActionsGroup>
        )}
        {groups.map(([title, each]) =>
          each.length ? (
            <Spotlight.ActionsGroup key={title} label={title}>
              {each.map(({ label, icon: Icon, run, description, right }) => (
                <Spotlight.Action key={label} label={label} description={description} leftSection={<Icon size={15} />} rightSection={right} onClick={run} />
              ))}
            </Spotlight.ActionsGroup>
          ) : null,
        )}
        {!found.length && groups.every(([, each]) => !each.length) && (
          <Spotlight.Empty>{runs.isFetching ? "Searching …" : "Nothing found"}</Spotlight.Empty>
        )}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

/** What is found without asking the server for each text, and the function that goes to a page. */
function useActions(workspace: string, onKeys: () => void, text: string) {
  const navigate = useNavigate();
  const may = useMay();
  const { setColorScheme } = useMantineColorScheme();
  const { data: machines } = useQuery({ ...targets(workspace), enabled: text.length > 0 });
  const { data: series } = useQuery({ ...experiments(workspace), enabled: text.length > 0 });
  const run = (path: string) => void navigate({ to: `/workspaces/${encodeURIComponent(workspace)}${path}` });
  const matches = ({ label }: { label: string }) => label.toLowerCase().includes(text);
  const places = PLACES.filter(({ permission }) => may(permission)).map(({ path, label, icon, key }): Action => ({
    label,
    icon,
    run: () => run(path),
    right: (
      <span>
        <Kbd size="xs">g</Kbd> <Kbd size="xs">{key}</Kbd>
      </span>
    ),
  }));
  const doing: Action[] = [
    ...(may("runs.submit") ? [{ label: "Submit a run", icon: IconSend, run: () => run("/submit") }] : []),
    ...(may("targets.write") ? [{ label: "Create or attach compute", icon: IconPlus, run: () => run("/new-compute") }] : []),
    ...THEMES.map(({ value, label, icon }) => ({ label: `Theme: ${label.toLowerCase()}`, icon, run: () => setColorScheme(value) })),
    { label: "Show the keys", icon: IconKeyboard, run: onKeys, right: <Kbd size="xs">?</Kbd> },
  ];
  const targetsFound = text ? (machines?.targets ?? []).map(({ name, kind }): Action => ({ label: name, description: kind, icon: IconServer, run: () => run(`/compute/${encodeURIComponent(name)}`) })) : [];
  const experimentsFound = text ? (series?.experiments ?? []).map(({ name }): Action => ({ label: name, icon: IconFlask, run: () => run(`/experiments/${encodeURIComponent(name)}`) })) : [];
  const groups: [string, Action[]][] = [
    ["Targets", targetsFound.filter(matches).slice(0, MOST)],
    ["Experiments", experimentsFound.filter(matches).slice(0, MOST)],
    ["Pages", places.filter(matches)],
    ["Actions", doing.filter(matches)],
  ];
  return { run, groups };
}
