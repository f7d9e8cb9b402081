"""Every registered operator, called with arguments that nobody would pass: no call may end the process."""
