/** The frame around every page of a workspace: menu, search, who is signed in, whether the server answers. */
import {
  ActionIcon,
  AppShell,
  Burger,
  Group,
  Kbd,
  Menu,
  NavLink,
  Select,
  Text,
  UnstyledButton,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { spotlight } from "@mantine/spotlight";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { IconCheck, IconKeyboard, IconLogout, IconSearch, IconUser, IconWifiOff } from "@tabler/icons-react";
import { Link, Outlet, useNavigate, useParams, useRouterState } from "@tanstack/react-router";
import { Suspense, useEffect, useRef, useState } from "react";

import { onSignedOut } from "@/api/client";
import { useLiveUpdates } from "@/api/live";
import { queryClient, workspaces } from "@/api/queries";
import { session, signOut, useMay } from "@/api/session";
import { Loading } from "@/components/states";
import { PLACES } from "./navigation";
import { Palette } from "./palette";
import classes from "./shell.module.css";
import { useKeys } from "./keys";
import { Shortcuts } from "./shortcuts";
import { THEMES } from "./themes";
import { useFocusOnNavigation } from "./use-focus-on-navigation";

const GROUPS = [
  ["work", ""],
  ["assets", "Assets"],
  ["administration", "Administration"],
] as const;

export function Shell() {
  const { workspace } = useParams({ strict: false }) as { workspace: string };
  const [isOpen, menu] = useDisclosure();
  const [isShowingKeys, keys] = useDisclosure();
  const isConnected = useLiveUpdates(workspace);
  const navigate = useNavigate();
  const path = useRouterState({ select: (state) => state.location.pathname });
  useKeys(workspace, keys.open);
  useFocusOnNavigation(path);
  useEffect(() => localStorage.setItem("windlass.workspace", workspace), [workspace]);
  useEffect(() => menu.close(), [path]); // eslint-disable-line react-hooks/exhaustive-deps
  useEffect(() => {
    let hasLeft = false;
    return onSignedOut(() => {
      if (hasLeft) return; // each request of the page is refused
      hasLeft = true;
      // Cleared after the page is gone: its components would ask again at once.
      const next = location.pathname + location.search;
      void navigate({ to: "/signin", search: { next } }).then(() => queryClient.clear());
    });
  }, [navigate]);
  return (
    <AppShell header={{ height: 48 }} navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !isOpen } }}>
      <a href="#content" className={classes.skip}>
        Skip to the content
      </a>
      <AppShell.Header className={classes.header}>
        <Burger opened={isOpen} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label="Menu" />
        <Link to="/workspaces/$workspace" params={{ workspace }} className={classes.brand} aria-label="Windlass">
          <img src="icon.svg" alt="" width={22} height={22} />
          <span>Windlass</span>
        </Link>
        <WorkspaceSelect workspace={workspace} />
        <UnstyledButton className={classes.search} onClick={spotlight.open} aria-label="Search runs, go to a page …">
          <IconSearch size={15} />
          <Text span size="sm" visibleFrom="sm">
            Search runs, go to a page …
          </Text>
          <Kbd size="xs" className={classes.key} aria-hidden>
            /
          </Kbd>
        </UnstyledButton>
        <Group gap={4} ml="auto" wrap="nowrap">
          <ThemeMenu />
          <UserMenu onKeys={keys.open} />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className={classes.navbar} aria-label="Pages">
        <Places workspace={workspace} path={path} />
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1} className={classes.main}>
        <Connection isConnected={isConnected} />
        <Suspense fallback={<div className={classes.loading}><Loading /></div>}>
          <Outlet />
        </Suspense>
      </AppShell.Main>
      <Palette workspace={workspace} onKeys={keys.open} />
      <Shortcuts opened={isShowingKeys} onClose={keys.close} />
    </AppShell>
  );
}

function Places({ workspace, path }: { workspace: string; path: string }) {
  const may = useMay();
  const home = `/workspaces/${workspace}`;
  const here = decodeURIComponent(path).slice(home.length).replace(/\/$/, "").replace(/^\/(new-compute|quotas)/, "/compute");
  return GROUPS.map(([group, title]) => {
    const places = PLACES.filter((place) => place.group === group && may(place.permission));
    if (!places.length) return null;
    return (
      <div key={group} className={classes.group}>
        {title && (
          <Text size="xs" c="dimmed" className={classes.groupTitle}>
            {title}
          </Text>
        )}
        {places.map(({ path: to, label, icon: Icon }) => (
          <NavLink
            key={label}
            component={Link}
            to={home + to}
            activeOptions={{ exact: to === "" }}
            label={label}
            leftSection={<Icon size={16} stroke={1.7} />}
            active={to === "" ? here === "" : here === to || here.startsWith(`${to}/`)}
            className={classes.place}
          />
        ))}
      </div>
    );
  });
}

function WorkspaceSelect({ workspace }: { workspace: string }) {
  const { data } = useQuery(workspaces());
  const navigate = useNavigate();
  const names = data?.workspaces.map(({ name }) => name) ?? [workspace];
  return (
    <Select
      aria-label="Workspace"
      size="xs"
      variant="unstyled"
      className={classes.workspace}
      data={names.includes(workspace) ? names : [workspace, ...names]}
      value={workspace}
      searchable={names.length > 8}
      onChange={(name) => name && void navigate({ to: "/workspaces/$workspace", params: { workspace: name } })}
      comboboxProps={{ width: 220, position: "bottom-start" }}
    />
  );
}

const SHOWN_AGAIN_MS = 4000;

/** Says that the server does not answer, and for a moment that it answers again. It lies over the page: nothing moves. */
function Connection({ isConnected }: { isConnected: boolean }) {
  const [isBack, setBack] = useState(false);
  const wasLost = useRef(false);
  useEffect(() => {
    setBack(isConnected && wasLost.current);
    wasLost.current = !isConnected;
    const timer = setTimeout(() => setBack(false), SHOWN_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [isConnected]);
  return (
    <div role="status" className={classes.connection}>
      {!isConnected && (
        <span className={classes.lost}>
          <IconWifiOff size={16} aria-hidden />
          The server does not answer. What you see may be old. Reconnecting …
        </span>
      )}
      {isBack && (
        <span className={classes.back}>
          <IconCheck size={16} aria-hidden />
          Connected again, and up to date.
        </span>
      )}
    </div>
  );
}

function ThemeMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const { icon: Current } = THEMES.find(({ value }) => value === colorScheme)!;
  return (
    <Menu position="bottom-end" width={180}>
      <Menu.Target>
        <ActionIcon size="lg" aria-label="Theme">
          <Current size={17} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {THEMES.map(({ value, label, icon: Icon }) => (
          <Menu.Item
            key={value}
            role="menuitemradio"
            aria-checked={colorScheme === value}
            leftSection={<Icon size={15} />}
            rightSection={colorScheme === value && <IconCheck size={14} aria-hidden />}
            onClick={() => setColorScheme(value)}
          >
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function UserMenu({ onKeys }: { onKeys: () => void }) {
  const { data } = useSuspenseQuery(session());
  const navigate = useNavigate();
  async function leave() {
    await signOut().catch(() => undefined);
    await navigate({ to: "/signin" });
    queryClient.clear();
  }
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <ActionIcon size="lg" aria-label={`Signed in as ${data.name}`}>
          <IconUser size={17} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {data.name} · {data.role}
        </Menu.Label>
        <Menu.Label>Windlass {data.version}</Menu.Label>
        <Menu.Item leftSection={<IconKeyboard size={15} />} rightSection={<Kbd size="xs">?</Kbd>} onClick={onKeys}>
          Keys
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={15} />} onClick={() => void leave()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
