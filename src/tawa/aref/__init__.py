"""The aref level: warp groups that exchange tiles only through asynchronous references."""
